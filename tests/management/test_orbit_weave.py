import json
import sys
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.checks import ERROR, WARNING
from django.core.management import call_command
from django.core.management.base import CommandError

from orbit_django.checks import check_settings
from orbit_django.embedded.weave.platform import ENVIRONMENT, PROJECT, TENANT
from orbit_django.embedded.weave.server import RARE, EmbeddedWeave
from tests.transports.weave.scene import DIGEST

pytestmark = [pytest.mark.django_db(transaction=True)]


class World:
    """A server without a release, and the command."""

    def __init__(self, settings: Any, folder: Path) -> None:
        self.weave = EmbeddedWeave(limits=RARE).start()
        self.settings = settings
        self.deployer = folder / "deployer"
        self.deployer.write_text(self.weave.call("issue_token", name="deployer"))
        self.configure()

    def configure(self, **more: Any) -> None:
        token = self.weave.call("issue_token", name="worker")
        place = {"SERVER": self.weave.url, "TENANT": TENANT, "PROJECT": PROJECT, "ENVIRONMENT": ENVIRONMENT}
        self.settings.ORBIT = {"TRANSPORT": "weave", "WEAVE": place | {"TOKEN": token} | more}

    def admit(self, *arguments: str, digest: str = DIGEST) -> str:
        return run("admit", "--image-digest", digest, "--token-file", str(self.deployer), *arguments)[1]


def run(*arguments: str) -> tuple[int, str]:
    out, code = StringIO(), 0
    try:
        call_command("orbit_weave", *arguments, stdout=out, no_color=True)
    except CommandError as error:
        code = error.returncode
        out.write(str(error))
    return code, out.getvalue()


@pytest.fixture
def world(settings: Any, tmp_path: Path) -> Iterator[World]:
    world = World(settings, tmp_path)
    yield world
    world.weave.stop()


def test_a_release_is_admitted_and_the_same_request_finds_it_again(world: World) -> None:
    said = world.admit()
    (release,) = world.weave.call("releases")
    assert said.strip() == f"release {release['id']} is admitted: set WEAVE['RELEASE_ID'] to it"
    world.configure(RELEASE_ID=release["id"], IMAGE_DIGEST=DIGEST)
    code, said = run("admit", "--token-file", str(world.deployer))
    assert (code, "admitted before with this very request" in said) == (0, True)
    assert len(world.weave.call("releases")) == 1
    names = {each["taskType"] for each in release["capabilities"]}
    assert "test.charge" in names
    assert release["capabilities"][0]["sideEffect"] == "idempotency_key"


def test_each_conflict_is_explained_in_one_line(world: World) -> None:
    world.admit()
    assert "admitted before with another request: build a new image" in world.admit("--credentials", "test.charge")
    said = world.admit("--timeout", "60", digest="sha256:" + "c" * 64)
    assert "another contract in this project already: change the version" in said
    assert "\n" not in said.strip()


def test_a_worker_may_not_admit_and_is_told_who_may(world: World) -> None:
    code, said = run("admit", "--image-digest", DIGEST)
    assert (code, "that takes a deployer's, --token-file" in said) == (1, True)


def test_mistakes_are_named(world: World, tmp_path: Path) -> None:
    assert run("admit") == (2, "--image-digest: expected sha256: and 64 small hexadecimal digits, found 'nothing'")
    assert "--credentials: the pattern 'nope' matches none" in world.admit("--credentials", "nope")
    assert "--bindings:" in world.admit("--bindings", str(tmp_path / "none"))
    world.settings.ORBIT = {"WEAVE": {}}
    assert run("admit", "--image-digest", DIGEST) == (2, "WEAVE: SERVER is missing")


def test_a_token_file_that_is_not_there_is_that_of_the_command_line(world: World, tmp_path: Path) -> None:
    missing = tmp_path / "none.token"
    world.configure(TOKEN_FILE=str(world.deployer), TOKEN="")
    said = run("admit", "--image-digest", DIGEST, "--token-file", str(missing))
    assert said == (2, f"--token-file: {missing} cannot be read: No such file or directory")


@pytest.mark.promise("W8")
def test_a_worker_whose_release_is_not_known_ends_with_what_to_do(world: World) -> None:
    world.configure(RELEASE_ID=TENANT)
    with pytest.raises(CommandError) as caught:
        call_command("orbit_worker", "--task", "test.charge")
    line = (
        f"the runtime refuses this worker: 409 WV-LEASE: the release {TENANT} of WEAVE['RELEASE_ID'] is unknown there"
    )
    assert (caught.value.returncode, str(caught.value).partition(";")[0]) == (2, line)


def test_a_wrong_secret_names_where_it_came_from(world: World, tmp_path: Path) -> None:
    oauth = {"TOKEN_URL": world.weave.token_url, "CLIENT_ID": "worker", "CLIENT_SECRET": "wrong"}
    world.configure(RELEASE_ID=TENANT, OAUTH=oauth, TOKEN="")
    world.settings.ORBIT |= {"TOKEN": "of-orbit"}
    with pytest.raises(CommandError) as caught:
        call_command("orbit_worker")
    assert caught.value.returncode == 2
    assert str(caught.value).endswith(
        "WEAVE['OAUTH']['TOKEN_URL'] answered 401 invalid_client; look at CLIENT_ID and CLIENT_SECRET"
    )
    (tmp_path / "secret").write_text("wrong")
    oauth = {**oauth, "CLIENT_SECRET": "", "CLIENT_SECRET_FILE": str(tmp_path / "secret")}
    world.configure(OAUTH=oauth, TOKEN="")
    assert "look at CLIENT_ID and CLIENT_SECRET_FILE" in run("status")[1]
    world.configure(RELEASE_ID=TENANT, TOKEN="expired")
    world.settings.ORBIT |= {"TOKEN": "of-orbit"}
    with pytest.raises(CommandError, match=r"; look at WEAVE\['TOKEN'\]$"):
        call_command("orbit_worker")


def test_a_dry_run_sends_nothing(world: World) -> None:
    shown = json.loads(world.admit("--dry-run", "--credentials", "test.ch*"))
    assert shown["image_digest"] == DIGEST
    assert shown["credential_capabilities"] == ["test.charge@1.0.0"]
    assert world.weave.call("releases") == []


def test_a_platform_that_is_away_is_told_and_the_command_is_safe_to_repeat(world: World) -> None:
    world.weave.stop()
    try:
        code, said = run("admit", "--image-digest", DIGEST, "--token-file", str(world.deployer))
        assert (code, said.endswith("the same command again is safe")) == (1, True)
        assert run("status")[0] == 1
    finally:
        world.weave.start()


def test_status_says_how_things_stand(world: World) -> None:
    code, said = run("status")
    assert code == 1
    assert "ok    token: is accepted, for a worker's calls" in said
    assert "wrong release: WEAVE['RELEASE_ID'] is not set  -> manage.py orbit_weave admit tells it" in said
    assert "default: 0 pending, 0 delivered, 0 refused, 0 blocked" in said
    world.admit()
    world.configure(RELEASE_ID=world.weave.call("releases")[0]["id"])
    code, said = run("status")
    assert (code, "what it offers cannot be read with a worker's token" in said) == (0, True)
    assert world.weave.call("instances") == []
    world.weave.call("expire_tokens")
    code, said = run("status")
    assert (code, "wrong token: is not accepted" in said) == (1, True)


def test_the_doctor_looks_at_the_platform_instead_of_a_runtime(world: World) -> None:
    out = StringIO()
    with pytest.raises(CommandError):
        call_command("orbit_doctor", stdout=out, no_color=True)
    assert "WEAVE['RELEASE_ID'] is not set" in out.getvalue()
    assert "token" in out.getvalue()
    assert "runtime " not in out.getvalue()


@pytest.mark.promise("W8")
def test_a_worker_without_a_release_does_not_start(world: World) -> None:
    with pytest.raises(CommandError, match=r"RELEASE_ID is missing: manage.py orbit_weave admit tells it") as caught:
        call_command("orbit_worker", "--check")
    assert caught.value.returncode == 2
    with pytest.raises(CommandError, match=r"RELEASE_ID is missing") as caught:
        call_command("orbit_worker")
    assert caught.value.returncode == 2
    (found,) = check_settings()
    assert found.id == "orbit_django.E001"
    assert found.msg == "WEAVE: RELEASE_ID is missing: manage.py orbit_weave admit tells it"
    world.configure(RELEASE_ID=TENANT)
    assert check_settings() == []
    out = StringIO()
    call_command("orbit_worker", "--check", stdout=out)
    assert f"environments/{ENVIRONMENT}: ready to start" in out.getvalue()


def test_what_only_a_worker_lacks_stops_check_and_no_other_command(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    for command, level in {"check": ERROR, "migrate": WARNING, "makemigrations": WARNING, "runserver": WARNING}.items():
        monkeypatch.setattr(sys, "argv", ["manage.py", command])
        assert [found.level for found in check_settings()] == [level]
    world.settings.ORBIT["WEAVE"]["SERVER"] = "no URL"
    assert [found.level for found in check_settings()] == [ERROR]


@pytest.mark.parametrize("action", ["status", "admit"])
def test_a_project_without_weave_is_told_that_it_is_one(settings, action: str) -> None:
    settings.ORBIT = {}
    told = "this project does not use Weave: TRANSPORT is 'http', and ORBIT has no WEAVE"
    assert run(action) == (2, told)

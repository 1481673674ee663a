"""Tokens and certificates that are replaced while the worker runs, and an environment that wants to interfere."""

import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pytest

from orbit_django.contracts import read
from orbit_django.embedded.callers import Credentials, Identity
from orbit_django.embedded.server import EmbeddedRuntime
from orbit_django.models import OutboxMessage
from tests.processes import ListeningFaults, Stage, wait_for
from tests.transports import wire
from tests.transports.certificates import Authority
from tests.worker.staging import WORKFLOWS, dispatches

pytestmark = [pytest.mark.promise("W9", "D2"), pytest.mark.timeout(90)]


class Play(NamedTuple):
    """A runtime that knows the worker, and two ways on: it wants another credential, and the worker gets it."""

    stage: Stage
    demand: Callable[[], None]
    renew: Callable[[], None]
    file: Path
    half: str  # what is in the file for a moment


def settings(**keys: str) -> dict[str, str]:
    return {"DJANGO_SETTINGS_MODULE": "tests.crash.settings", "CRASH_SETTINGS": json.dumps(keys)}


def play(made: Play) -> None:
    """Let a result be refused for its credential, renew that, and see it delivered by the same process."""
    stage = made.stage
    stage.start("one")
    assert stage.end_of("one")["status"] == "COMPLETED"
    away = made.file.rename(made.file.with_suffix(".away"))
    stage.start("two")
    assert stage.end_of("two")["status"] == "COMPLETED", "a file that is away for a moment does no harm"
    away.rename(made.file)

    stage.start("three", seconds=0.5)
    wait_for(lambda: dispatches(stage, "three"), 20)
    made.demand()
    wait_for(lambda: OutboxMessage.objects.filter(status="blocked").exists(), 20)
    made.file.write_text(made.half)
    wait_for(lambda: OutboxMessage.objects.filter(attempts=2, status="blocked").exists(), 20)  # tried once more
    made.renew()
    assert stage.end_of("three")["status"] == "COMPLETED"
    stage.start("four")
    assert stage.end_of("four")["status"] == "COMPLETED"
    assert stage.workers[-1].process.poll() is None
    assert len(stage.workers) == 1


def test_a_token_file(child_environment: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("first-token\n")
    runtime = EmbeddedRuntime(read(WORKFLOWS), token="admin", worker_token="first-token", faults=ListeningFaults())
    with runtime, closing(Stage(runtime, child_environment, tmp_path)) as stage:
        stage.worker("--concurrency", "1", **settings(WORKER_TOKEN_FILE=str(file)))

        def demand() -> None:
            runtime.credentials = Credentials("admin", "second-token")

        play(Play(stage, demand, lambda: file.write_text("second-token") and None, file, "second-to"))
        assert "-token" not in stage.workers[-1].log()


@pytest.fixture
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"), "ours")


@pytest.mark.parametrize("is_joint", [True, False])
def test_a_client_certificate(
    authority: Authority, child_environment: dict[str, str], tmp_path: Path, is_joint: bool
) -> None:
    shown, key = tmp_path / "shown.pem", tmp_path / "shown.key"

    def show(name: str) -> None:
        certificate, secret = (path.read_text() for path in authority.issue(name))
        key.write_text(secret)
        shown.write_text(certificate + (secret if is_joint else ""))

    def known(name: str) -> Credentials:
        return Credentials(identities=[Identity(id="w", tasks=("*",), client_cert=name)])

    show("first")
    faults = ListeningFaults()
    tls = authority.server_context(client_authority=authority)
    runtime = EmbeddedRuntime(read(WORKFLOWS), identities=known("first").identities, tls=tls, faults=faults)
    keys = {"CLIENT_CERT": str(shown)} | ({} if is_joint else {"CLIENT_KEY": str(key)})
    nonsense = f"http://127.0.0.1:{wire.closed_port()}"
    surroundings = {"REQUESTS_CA_BUNDLE": str(tmp_path / "none"), "HTTPS_PROXY": nonsense, "HTTP_PROXY": nonsense,
                    "NO_PROXY": "", "NETRC": str(tmp_path / "netrc"), "SSL_CERT_FILE": str(tmp_path / "none"),
                    "ORBIT_CA_CERT": str(authority.certificate)}  # fmt: skip
    (tmp_path / "netrc").write_text("default login mallory password wrong\n")
    with runtime, closing(Stage(runtime, child_environment | surroundings, tmp_path)) as stage:
        stage.worker("--concurrency", "1", "--worker-id", "w", **settings(**keys))

        def demand() -> None:
            runtime.credentials = known("second")

        play(Play(stage, demand, lambda: show("second"), shown, "-----BEGIN CERT"))

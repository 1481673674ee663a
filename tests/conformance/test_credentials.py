"""With which credentials calls come, and what is done about those that are refused."""

from hashlib import sha256

import pytest

from orbit_django import TaskError
from orbit_django.embedded.callers import Identity
from tests.conformance.scene import Scene
from tests.conformance.table import check
from tests.conformance.watching import PATHS, every_call
from tests.processes import wait_for
from tests.transports.certificates import Authority

SECRET = "tok-SECRET-93"


@check("The credential comes with every call of every thread, in the same way", "O030", "O041", "O163")
def test_credential(scene: Scene) -> None:
    scene.serve(token="admin-SECRET", worker_token=SECRET)
    calls = every_call(scene, worker_token=SECRET)
    assert {call.wire.headers.get("authorization") for call in calls} == {f"Bearer {SECRET}"}


@check("Without a credential nothing is sent in its place", "O030")
def test_no_credential(scene: Scene) -> None:
    assert [call for call in every_call(scene) if "authorization" in call.wire.headers] == []


@check("A shared worker token is enough for a whole run", "O032", "O035")
def test_shared_token(scene: Scene) -> None:
    def pay(input):
        if input["seconds"]:
            raise TaskError("X")
        return {"paid": "yes"}

    scene.serve(token="admin-SECRET", worker_token=SECRET)
    scene.start("good")
    scene.start("bad", seconds=1.0)
    worker = scene.work(pay, worker_token=SECRET)
    assert scene.end_of("good")["status"] == "COMPLETED"
    assert scene.end_of("bad")["status"] == "FAILED"
    scene.wait("heartbeat")
    assert worker.end() == 0
    assert {call.name for call in scene.calls} == set(PATHS)
    assert [call for call in scene.calls if call.status in (401, 403)] == []


@check("Credentials and task tokens are in no line of the log", "O030", process=True)
@pytest.mark.promise("W9")
def test_log(scene: Scene) -> None:
    scene.serve(token="admin-SECRET", worker_token=SECRET)
    scene.script("complete", lambda exchange: None)
    scene.start("one", "Charge")
    worker = scene.process("--task", "test.*", ORBIT_WORKER_TOKEN=SECRET, ORBIT_LOG_LEVEL="DEBUG")
    assert scene.end_of("one")["status"] == "COMPLETED"
    worker.signal()
    assert worker.exit_code() == 0
    assert "SECRET" not in worker.log()
    assert scene.reports()[0].fields["token"] not in worker.log()


@check("A worker with an identity registers under its id, and works within its limits", "O033", "O036", "O039")
def test_identity(scene: Scene) -> None:
    digest = sha256(SECRET.encode()).hexdigest()
    scene.serve(identities=[Identity("watched-1", ("shop.*",), token_sha256=digest, runtime="python")])
    scene.start("one")
    scene.work(lambda input: {"paid": "yes"}, worker_token=SECRET)
    assert scene.end_of("one")["status"] == "COMPLETED"
    assert [call.status for call in scene.calls if call.status == 403] == []


@check("A worker whose identity is another's, or does not cover its tasks or language, is turned away with the reason",
       "O036", "O039")  # fmt: skip
@pytest.mark.promise("W8")
@pytest.mark.parametrize(
    ("identity", "words"),
    [
        ({"id": "ruby-1", "tasks": ("*",)}, "belongs to worker `ruby-1`"),
        ({"id": "watched-1", "tasks": ("other.*",)}, "may not serve: shop.pay"),
        ({"id": "watched-1", "tasks": ("*",), "runtime": "ruby"}, "must announce runtime `ruby`"),
    ],
)
def test_foreign_identity(scene: Scene, monkeypatch, identity: dict, words: str) -> None:
    scene.serve(identities=[Identity(token_sha256=sha256(SECRET.encode()).hexdigest(), **identity)])
    monkeypatch.setenv("ORBIT_WORKER_TOKEN", SECRET)
    code, line = scene.command("--worker-id", "watched-1")
    assert code == 2
    assert words in line
    assert len(scene.calls) == 1


@check("The worker's token comes before the admin's, an empty one counts as none, and the project's settings win",
       "O200", "O202")  # fmt: skip
@pytest.mark.parametrize(
    ("environment", "project", "sent"),
    [
        ({"ORBIT_WORKER_TOKEN": "w", "ORBIT_TOKEN": "a"}, {}, "Bearer w"),
        ({"ORBIT_WORKER_TOKEN": "", "ORBIT_TOKEN": "a"}, {}, "Bearer a"),
        ({"ORBIT_WORKER_TOKEN": "", "ORBIT_TOKEN": ""}, {}, None),
        ({"ORBIT_WORKER_TOKEN": "w"}, {"WORKER_TOKEN": "p"}, "Bearer p"),
        ({"ORBIT_WORKER_TOKEN": "w"}, {"WORKER_TOKEN": ""}, "Bearer w"),
    ],
)
def test_precedence(scene: Scene, settings, monkeypatch, environment: dict, project: dict, sent: str | None) -> None:
    settings.ORBIT = project
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    scene.work()
    assert scene.wait("register")[0].wire.headers.get("authorization") == sent


@pytest.fixture
def authority(tmp_path) -> Authority:
    return Authority(tmp_path, "ours")


@check("Over TLS only the authority that was named is trusted, instead of the system's", "O015", "O163", "O203")
def test_authority(scene: Scene, authority: Authority, tmp_path) -> None:
    scene.face.tls = authority.server_context()
    scene.deliver()
    for ca_cert in (None, str(Authority(tmp_path, "theirs").certificate)):
        stranger = scene.work(ca_cert=ca_cert)
        wait_for(lambda: "the runtime cannot be reached" in scene.log())
        stranger.kill()
        assert scene.calls == []
    scene.work(ca_cert=str(authority.certificate))
    assert scene.report().name == "complete"


@check(
    "A client certificate comes with every connection, its key in a file of its own or in the same one",
    "O034",
    "O040",
    "O041",
    "O163",
    "O204",
)
@pytest.mark.parametrize("how", ["pair", "joint"])
def test_client_certificate(scene: Scene, authority: Authority, tmp_path, how: str) -> None:
    scene.face.tls = authority.server_context(client_authority=authority)
    certificate, key = authority.issue("worker-cert")
    joint = tmp_path / "joint.pem"
    joint.write_bytes(certificate.read_bytes() + key.read_bytes())
    files = {"client_cert": str(certificate), "client_key": str(key)} if how == "pair" else {"client_cert": str(joint)}
    scene.deliver()
    scene.work(ca_cert=str(authority.certificate), **files)
    assert scene.report().name == "complete"
    scene.wait("heartbeat")
    assert {call.wire.common_name for call in scene.calls} == {"worker-cert"}


@check("A worker whose certificate is missing is not let in, and waits", "O034", "O040")
def test_no_client_certificate(scene: Scene, authority: Authority) -> None:
    scene.face.tls = authority.server_context(client_authority=authority)
    worker = scene.work(ca_cert=str(authority.certificate))
    wait_for(lambda: "the runtime cannot be reached" in worker.log())
    assert scene.calls == []

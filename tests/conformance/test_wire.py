"""How calls look on the wire, and where the settings of a worker are taken from."""

import os
import re
import socket
from pathlib import Path

import pytest

from orbit_django import TaskError
from tests.conformance.observer import amend
from tests.conformance.scene import Scene
from tests.conformance.table import check
from tests.conformance.watching import PATHS, every_call
from tests.processes import wait_for


def listening_inodes() -> set[str]:
    """Return the sockets of this machine that listen."""
    lines = [
        line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]
    ]
    return {fields[9] for fields in lines if fields[3] == "0A"}


@check(
    "Every call is a POST of JSON in UTF-8, under its content type, to one of the six paths",
    "O010",
    "O011",
    "O032",
    "O035",
    only="http",
)
def test_http(scene: Scene) -> None:
    for call in every_call(scene):
        assert (call.wire.method, call.wire.path) == ("POST", PATHS[call.name])
        assert call.wire.headers["content-type"].split(";")[0] == "application/json"
        assert call.fields, "the body is a JSON object"
        call.wire.body.decode("utf-8")


@check(
    "The version header is read, not sent: another one is told once and changes nothing",
    "O013",
    "O327",
    only="http",
    process=True,
)
def test_version_header(scene: Scene) -> None:
    def other(exchange):
        answer = exchange.forward()
        headers = answer.headers | {"x-orbit-api-version": "orbit-api/2"}
        return type(answer)(answer.status, answer.body, headers)

    for name in ("register", "poll", "heartbeat"):
        scene.always(name, other)
    scene.start("one", "Charge")
    worker = scene.process()
    assert scene.end_of("one")["status"] == "COMPLETED"
    scene.wait("heartbeat", 2)
    assert [call for call in scene.calls if "x-orbit-api-version" in call.wire.headers] == []
    assert worker.log().count("orbit-api/2") == 1


@check("Answers without the version header are as good", "O013", "O327", only="http")
def test_no_version_header(scene: Scene) -> None:
    def without(exchange):
        answer = exchange.forward()
        return type(answer)(answer.status, answer.body, {"content-type": "application/json"})

    scene.always("register", without)
    worker = scene.work()
    scene.wait("poll", 2)
    assert "version" not in worker.log()


@check(
    "No field of a call has a name that the protocol does not know",
    "O012",
    "O052",
    "O061",
    "O080",
    "O090",
    "O100",
    "O110",
)
def test_field_names(scene: Scene) -> None:
    def pay(input):
        if input == "fail":
            raise TaskError("X", details=1)
        return {}

    scene.deliver("good")
    scene.deliver("bad", input="fail")
    worker = scene.work(pay)
    scene.report("good")
    scene.report("bad")
    scene.wait("heartbeat")
    assert worker.end() == 0
    known = {
        "register": {"worker_id", "runtime", "contracts", "sdk"},
        "poll": {"worker_session_id", "wait_ms"},
        "heartbeat": {"worker_session_id"},
        "complete": {"token", "output"},
        "fail": {"token", "error_code", "error_message", "retryable", "details"},
        "unregister": {"worker_session_id"},
    }
    assert {call.name for call in scene.calls} == set(known)
    assert [call for call in scene.calls if not set(call.fields) <= known[call.name]] == []
    assert wait_for(lambda: scene.named("unregister")[0].answer).fields == {"accepted": True}


@check(
    "The runtime is where ORBIT_SERVER says, less a slash at its end; an option wins over it",
    "O200",
    "O201",
    process=True,
)
def test_server(scene: Scene) -> None:
    scene.process(ORBIT_SERVER=f"{scene.face.url}/")
    scene.seen("poll")
    if scene.binding == "http":
        assert {call.wire.path for call in scene.calls} <= set(PATHS.values())
    scene.process("--server", scene.face.url, "--worker-id", "second", ORBIT_SERVER="http://127.0.0.1:1")
    wait_for(lambda: scene.named("register")[-1].fields["worker_id"] == "second", 20)


@check("Without a setting the runtime is looked for where it listens by default", "O020", process=True)
def test_default_server(scene: Scene) -> None:
    worker = scene.process("--check", ORBIT_SERVER="")
    assert worker.exit_code(20) == 0
    assert "http://127.0.0.1:7233" in worker.log()


@check("The level of the log is INFO, or what ORBIT_LOG_LEVEL says", "O205", process=True)
@pytest.mark.parametrize("level", ["", "ERROR"])
def test_log_level(scene: Scene, level: str) -> None:
    scene.script("register", amend(warnings=["a warning"]))
    worker = scene.process(ORBIT_LOG_LEVEL=level)
    scene.seen("poll")
    if level:
        assert worker.log() == ""
    else:
        wait_for(lambda: "a warning" in worker.log() and " INFO " in worker.log())
        assert " DEBUG " not in worker.log()


@check("A worker opens no port", "O004", process=True)
def test_no_port(scene: Scene) -> None:
    before = listening_inodes()
    worker = scene.process()
    scene.seen("poll")
    folder = Path(f"/proc/{worker.process.pid}/fd")
    opened = {found[1] for fd in folder.iterdir() if (found := re.match(r"socket:\[(\d+)\]", str(fd.readlink())))}
    assert opened, "its own connections are seen"
    assert opened & (listening_inodes() - before) == set()
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert str(os.fstat(server.fileno()).st_ino) in listening_inodes(), "a port would be seen"

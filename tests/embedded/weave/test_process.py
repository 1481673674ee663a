"""The server as a process of its own, its controls over HTTP, and what a restart keeps."""

import base64
import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from orbit_django.clock import FixedClock
from orbit_django.embedded.store import Event, SqliteStore
from orbit_django.embedded.weave.entry import parser, server_of
from orbit_django.embedded.weave.platform import ENVIRONMENT, PROJECT, TENANT
from orbit_django.embedded.weave.server import EmbeddedWeave, handler
from orbit_django.exceptions import ConfigurationError
from tests import house
from tests.embedded.weave.scene import DIGEST, MAIL, Scene, capability, is_problem
from tests.embedded.wire import Client, Reply

ONE = "00000000-0000-4000-8000-000000000001"


class Process:
    def __init__(self, *options: str) -> None:
        command = [sys.executable, "-m", "orbit_django.embedded.weave", "--port", "0", *options]
        self.child = subprocess.Popen(command, cwd=house.ROOT, stdout=subprocess.PIPE, text=True)
        lines = [self.child.stdout.readline() for _ in range(4)]
        self.url = re.search(r"http://\S+", lines[0])[0]
        self.client = Client(self.url)

    def control(self, name: str, /, **members: Any) -> Any:
        return self.client.post(f"/control/{name}", members).json["result"]

    def post(self, path: str, body: Any, who: str = "worker") -> Reply:
        headers = {"authorization": f"Bearer {self.control('issue_token', name=who)}"}
        scope = f"/api/v1/tenants/{TENANT}/projects/{PROJECT}/environments/{ENVIRONMENT}"
        return self.client.send("POST", scope + path, json.dumps(body).encode(), headers)

    def close(self, number: int = signal.SIGTERM) -> None:
        self.client.close()
        self.child.send_signal(number)
        assert self.child.wait(20) == (0 if number == signal.SIGTERM else -number)
        self.child.stdout.close()


@pytest.fixture
def process() -> Iterator[Process]:
    process = Process()
    yield process
    process.close()


def test_a_process_can_be_controlled_over_http(process: Process) -> None:
    body = {"image_digest": DIGEST, "capabilities": [capability()]}
    reply = process.post("/worker-releases", body, "deployer")
    task_id = process.control("create_task", capability="mail.send@1.0.0", input={"n": 1})

    assert reply.status == 201
    assert process.control("task", task_id=task_id)["status"] == "ready"
    assert process.control("releases")[0]["id"] == reply.json["id"]
    (seen,) = process.control("log")
    assert (seen["call"], seen["status"], base64.b64decode(seen["body"])) == ("admit", 201, json.dumps(body).encode())
    assert base64.b64decode(seen["answer"]) == reply.body
    assert seen["headers"]["authorization"] == "Bearer ***"
    process.control("fault", text="status:admit:500")
    assert process.post("/worker-releases", body, "deployer").status == 500


def test_a_killed_process_loses_nothing(tmp_path: Path) -> None:
    process = Process("--db", str(tmp_path / "weave.db"))
    body = {"image_digest": DIGEST, "capabilities": [capability()]}
    release_id = process.post("/worker-releases", body, "deployer").json["id"]
    registration = {"release_id": release_id, "task_types": [MAIL], "capacity": 2}
    worker_id = process.post("/workers", registration).json["id"]
    for _ in range(2):
        process.control("create_task", capability=MAIL)
    leases = process.post("/tasks/claim", {"worker_id": worker_id, "limit": 2}).json
    done = [{"lease": lease["proof"], "completion_id": ONE, "output": {"n": 1}} for lease in leases]
    receipt = process.post("/tasks/complete", done[0])
    process.close(signal.SIGKILL)

    process = Process("--db", str(tmp_path / "weave.db"))
    assert process.post("/tasks/complete", done[0]).body == receipt.body
    assert process.post("/tasks/complete", done[1]).json["status"] == "completed"
    process.close()


def test_a_wrong_control_is_said(scene: Scene) -> None:
    assert "known are" in scene.client.post("/control/wonder", {}).json["error"]
    reply = scene.client.post("/control/task", {"task_id": "t"})
    assert (reply.status, reply.json) == (404, {"error": "task: there is no 't'"})
    assert scene.client.post("/control/task", {"id": "t"}).status == 400
    assert scene.client.post("/control/set_limits", {"level": "frequent"}).status == 200
    assert scene.client.post("/control/advance", {"seconds": 5}).status == 200
    assert scene.client.post("/control/recover", {}).json == {"result": 0}
    assert scene.client.post("/control/clear_faults", {}).status == 200
    assert scene.client.post("/control/clear_log", {}).status == 200
    assert scene.client.post("/control/log", {}).json == {"result": []}


def test_a_control_without_what_it_needs_says_what_it_takes(scene: Scene) -> None:
    def error_of(name: str, members: Any) -> str:
        reply = scene.client.post(f"/control/{name}", members)
        assert reply.status == 400
        return reply.json["error"]

    said = error_of("create_task", {"inptu": {}})
    assert said.startswith(
        "create_task: 'capability' is missing, 'inptu' is unknown; it takes capability and, if wanted, "
    )
    assert said.endswith(
        "input, run_id, step, release_id, side_effect, retry, timeout_seconds, output_schema, connection_revision_id"
    )
    assert error_of("create_task", []) == "create_task: the body is no JSON object"
    assert error_of("recover", {"a": 1}) == "recover: 'a' is unknown; it takes nothing"


def test_only_this_machine_controls(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handler, "_LOOPBACK", ("10.",))  # the test's own address counts as a stranger's
    assert is_problem(scene.client.post("/control/tasks", {}), 403, "WV-FORBIDDEN")


def test_a_restart_keeps_releases_leases_and_receipts(tmp_path: Path) -> None:
    scene = Scene(db_path=tmp_path / "weave.db")
    try:
        first, second = scene.ready().lease(), scene.lease()
        receipt = scene.complete(first, {"a": 1}, ONE)
        url = scene.weave.url
        scene.client.close()
        scene.weave.restart()

        assert scene.weave.url == url
        assert scene.complete(first, {"a": 1}, ONE).body == receipt.body
        assert scene.heartbeat(second).status == 200
        assert scene.complete(second).status == 200
        assert scene.claim().json == []
    finally:
        scene.close()


def test_without_a_file_the_state_outlives_a_restart_of_the_object(scene: Scene) -> None:
    lease = scene.ready().lease()
    scene.client.close()
    scene.weave.restart()
    assert scene.heartbeat(lease).status == 200


def test_a_file_of_another_server_is_refused(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "other.db")
    store.append([Event("e-1", "WorkflowStarted", 0, {})])
    store.close()
    with pytest.raises(ConfigurationError, match="not of a Weave server"):
        EmbeddedWeave(db_path=tmp_path / "other.db", clock=FixedClock()).start()


def test_options_that_make_no_sense_are_named() -> None:
    options = vars(parser("serve").parse_args(["--lease-seconds", "61"]))
    with pytest.raises(ConfigurationError, match="--lease-seconds must be from 1 to 60, not 61"):
        server_of(options)

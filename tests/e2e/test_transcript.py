"""The executions of the recorded conversation, driven by a worker to the recorded ends."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from orbit_django.contracts import read
from orbit_django.embedded.server import EmbeddedRuntime
from orbit_django.embedded.views import execution_view
from tests.contracts.texts import GREET
from tests.processes import wait_for

pytestmark = [pytest.mark.databases, pytest.mark.django_db(transaction=True)]


class Conversation:
    """The runtime of the record and one worker."""

    def __init__(self, runtime: EmbeddedRuntime, environment: dict[str, str], log: Path) -> None:
        self.runtime = runtime
        self._environment = environment
        self._log = log
        self.workers: list[subprocess.Popen[bytes]] = []

    def worker(self) -> subprocess.Popen[bytes]:
        with self._log.open("ab") as log:
            arguments = [sys.executable, "manage.py", "orbit_worker", "--concurrency", "1", "--task", "greeting.*"]
            process = subprocess.Popen(arguments, env=self._environment, stdout=log, stderr=log)
        self.workers.append(process)
        return process

    def start(self, execution_id: str, name: str) -> None:
        with self.runtime.changing() as runtime:
            runtime.start("Greet", {"name": name}, execution_id)

    def view(self, execution_id: str) -> dict[str, Any]:
        with self.runtime.lock:
            return execution_view(self.runtime.runtime.state.execution(execution_id))

    def end_of(self, execution_id: str) -> dict[str, Any]:
        wait_for(lambda: self.view(execution_id)["status"] != "RUNNING", 20)
        return self.view(execution_id)

    def is_held(self, execution_id: str) -> bool:
        return any(step["status"] == "running" for step in self.view(execution_id)["steps"])

    def attempts(self, execution_id: str) -> list[int]:
        with self.runtime.lock:
            events = self.runtime.runtime.store.events(execution_id)
            return [event.data["attempt"] for event in events if event.kind == "StepDispatched"]


@pytest.fixture
def conversation(child_environment: dict[str, str], tmp_path: Path) -> Iterator[Conversation]:
    tokens = {"token": "admin-secret", "worker_token": "worker-secret"}
    with EmbeddedRuntime(read(GREET), session_timeout_ms=3_000, **tokens) as runtime:
        chosen = {"DJANGO_SETTINGS_MODULE": "tests.e2e.settings", "ORBIT_SERVER": runtime.url}
        environment = {**child_environment, **chosen, "ORBIT_WORKER_TOKEN": "worker-secret"}
        made = Conversation(runtime, environment, tmp_path / "log")
        try:
            yield made
        finally:
            for worker in made.workers:
                worker.kill()
                worker.wait(10)


def test_a_retried_failure_a_refused_output_and_a_blank_name(conversation):
    conversation.worker()
    for execution_id, name in (("greet-ada", "Ada"), ("greet-blank", ""), ("greet-wrong", "Wrong")):
        conversation.start(execution_id, name)
    assert conversation.end_of("greet-ada")["output"] == {"message": "Hello, Ada"}
    assert conversation.attempts("greet-ada") == [1, 2]
    blank = conversation.end_of("greet-blank")
    assert (blank["status"], conversation.attempts("greet-blank")) == ("FAILED", [1])
    assert blank["error"] == {"code": "INVALID_NAME", "message": "step `compose` failed: name is blank"}
    assert "OUTPUT_CONTRACT_VIOLATION" in str(conversation.end_of("greet-wrong")["error"])


@pytest.mark.promise("W4")
def test_a_cancelled_execution_stops_the_handler(conversation):
    conversation.worker()
    conversation.start("greet-cancel", "Cy")
    wait_for(lambda: conversation.attempts("greet-cancel"), 20)
    with conversation.runtime.changing() as runtime:
        runtime.cancel("greet-cancel", "customer withdrew")
    assert conversation.end_of("greet-cancel")["status"] == "CANCELLED"


@pytest.mark.promise("W5", "E7")
def test_a_worker_that_ends_in_haste_gives_its_task_back(conversation):
    first = conversation.worker()
    conversation.start("greet-redeliver", "Di")
    wait_for(lambda: conversation.attempts("greet-redeliver"), 20)
    wait_for(lambda: first.poll() is not None or os.kill(first.pid, signal.SIGTERM), 10)
    assert first.wait(10) == 1
    conversation.worker()
    assert conversation.end_of("greet-redeliver")["output"] == {"message": "Hello, Di"}
    assert conversation.attempts("greet-redeliver") == [1, 1]

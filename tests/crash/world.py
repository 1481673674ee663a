"""A runtime in this process, workers in others, and what is counted in the end."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from orbit_django.embedded.executions import Execution
from orbit_django.embedded.server import EmbeddedRuntime
from orbit_django.models import IdempotencyRecord, OutboxMessage
from tests.processes import ListeningFaults
from tests.testapp.models import Charge

CONTRACT = Path(__file__).with_name("crash.orbit")
NOTES = "CRASH_NOTES"  # names the folder in which handlers write down what they do
TOKEN = "crash-worker-token"


def wait_for(condition: Callable[[], Any], seconds: float, what: str) -> None:
    """Return when the condition holds; fail, saying what was waited for, when it does not in time."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"not within {seconds} s: {what}"
        time.sleep(0.02)  # noqa: TID251  (between two looks at another process)


class World:
    """One runtime with its executions, and the worker processes that a test starts, over one binding."""

    def __init__(self, environment: dict[str, str], log: Path, binding: str = "http") -> None:
        self.faults = ListeningFaults()
        self.binding = binding
        self.runtime = EmbeddedRuntime(
            [CONTRACT],
            worker_token=TOKEN,
            token="admin",
            session_timeout_ms=1_000,
            faults=self.faults,
            grpc_port=0 if binding == "grpc" else None,
        )
        self.log = log
        self.environment = environment | {NOTES: str(log.parent), "DJANGO_SETTINGS_MODULE": "tests.crash.settings"}
        self._processes: list[subprocess.Popen[bytes]] = []

    def worker(
        self, crash_at: str = "", concurrency: int = 4, options: tuple[str, ...] = (), **settings: Any
    ) -> subprocess.Popen[bytes]:
        """Start a worker process; with ``crash_at`` it kills itself at that step. ``settings`` are keys of ORBIT."""
        environment = {**self.environment, "ORBIT_SERVER": self.runtime.url, "ORBIT_WORKER_TOKEN": TOKEN}
        way = {"TRANSPORT": self.binding, "GRPC_TARGET": self.runtime.grpc_target}
        environment["CRASH_SETTINGS"] = json.dumps(way | settings)
        arguments = ["--concurrency", str(concurrency), "--task", "crash.*", *options]
        with self.log.open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.crash.child", *arguments],
                env={**environment, "CRASH_AT": crash_at},
                stdout=log,
                stderr=log,
            )
        self._processes.append(process)
        return process

    def start(self, execution_id: str, amount: int, pause_ms: int = 0) -> None:
        """Start an execution that writes one row."""
        with self.runtime.changing() as runtime:
            runtime.start("Charge", {"amount": amount, "pause_ms": pause_ms}, execution_id)

    def play(self, execution_id: str, workflow: str, mode: str = "", pause_ms: int = 0) -> None:
        """Start an execution of a task that does as its mode says."""
        with self.runtime.changing() as runtime:
            runtime.start(workflow, {"mode": mode, "pause_ms": pause_ms}, execution_id)

    def execution(self, execution_id: str) -> Execution:
        """Return an execution as the runtime sees it."""
        with self.runtime.lock:
            return self.runtime.runtime.state.execution(execution_id)

    def wait_for_end(self, execution_id: str, seconds: float = 30) -> Execution:
        """Return an execution once it has ended."""
        wait_for(lambda: self.execution(execution_id).is_finished, seconds, f"{execution_id} ends")
        return self.execution(execution_id)

    def notes(self, execution_id: str, word: str) -> list[str]:
        """Return what handlers of an execution have noted under a word; see `note`."""
        path = self.log.parent / f"{execution_id}.{word}"
        return path.read_text(encoding="utf-8").splitlines() if path.exists() else []

    def wait_for_note(self, execution_id: str, word: str, count: int = 1) -> None:
        """Return once handlers have noted that so often."""
        try:
            wait_for(
                lambda: len(self.notes(execution_id, word)) >= count, 30, f"{word}, {count} times, in {execution_id}"
            )
        except AssertionError as error:
            error.add_note(self.log.read_text(encoding="utf-8"))
            raise

    def wait_for_poll(self) -> None:
        """Return once a worker polls from now on."""
        began = time.monotonic()
        wait_for(lambda: self.faults.times("poll", began), 30, "a worker polls")

    def statuses(self) -> list[str]:
        """Return the status of every execution."""
        with self.runtime.lock:
            return [execution.status for execution in self.runtime.runtime.state.executions.values()]

    def are_all_completed(self) -> bool:
        """Return whether every execution has ended well."""
        return set(self.statuses()) == {"COMPLETED"}

    def events(self, execution_id: str, kind: str) -> int:
        """Count the events of one kind in an execution's history."""
        with self.runtime.lock:
            return sum(event.kind == kind for event in self.runtime.runtime.store.events(execution_id))

    def end_holds(self) -> None:
        """Let the holds of dead senders end now instead of in fifteen seconds."""
        OutboxMessage.objects.pending().update(due_at=0)

    def stop(self) -> None:
        """End every process that was started here."""
        for process in self._processes:
            if process.poll() is None:
                process.kill()
            process.wait(10)


@contextmanager
def world(environment: dict[str, str], folder: Path, binding: str = "http") -> Iterator[World]:
    """Return a running world and end it."""
    made = World(environment, folder / "workers.log", binding)
    with made.runtime:
        try:
            yield made
        finally:
            made.stop()


def counted() -> tuple[int, int, int]:
    """Return how many effects, records and messages are committed."""
    return Charge.objects.count(), IdempotencyRecord.objects.count(), OutboxMessage.objects.count()


def kill(process: subprocess.Popen[bytes]) -> None:
    """Kill -9, and wait until the process is gone."""
    process.kill()
    process.wait(10)

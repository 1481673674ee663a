"""A runtime in this process, workers in others, and what is counted in the end."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from orbit_django.embedded.server import EmbeddedRuntime
from orbit_django.models import IdempotencyRecord, OutboxMessage
from tests.testapp.models import Charge

CONTRACT = Path(__file__).with_name("crash.orbit")
TOKEN = "crash-worker-token"


def wait_for(condition: Callable[[], Any], seconds: float, what: str) -> None:
    """Return when the condition holds; fail, saying what was waited for, when it does not in time."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"not within {seconds} s: {what}"
        time.sleep(0.02)  # noqa: TID251  (between two looks at another process)


class World:
    """One runtime with its executions, and the worker processes that a test starts."""

    def __init__(self, environment: dict[str, str], log: Path) -> None:
        self.runtime = EmbeddedRuntime([CONTRACT], worker_token=TOKEN, token="admin", session_timeout_ms=1_000)
        self.log = log
        self._environment = environment
        self._processes: list[subprocess.Popen[bytes]] = []

    def worker(self, crash_at: str = "", concurrency: int = 4) -> subprocess.Popen[bytes]:
        """Start a worker process; with ``crash_at`` it kills itself at that step."""
        environment = {**self._environment, "ORBIT_SERVER": self.runtime.url, "ORBIT_WORKER_TOKEN": TOKEN}
        arguments = ["--concurrency", str(concurrency), "--task", "crash.*"]
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
        """Start an execution."""
        with self.runtime.changing() as runtime:
            runtime.start("Charge", {"amount": amount, "pause_ms": pause_ms}, execution_id)

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
def world(environment: dict[str, str], folder: Path) -> Iterator[World]:
    """Return a running world and end it."""
    made = World(environment, folder / "workers.log")
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
    os.kill(process.pid, signal.SIGKILL)
    process.wait(10)

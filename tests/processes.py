"""Worker processes for tests: started, watched, stopped and killed, against a runtime that lives in the test."""

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Any, NamedTuple

from orbit_django.embedded.answers import Answer, Host, Request
from orbit_django.embedded.faults import Faults
from orbit_django.embedded.server import EmbeddedRuntime
from orbit_django.embedded.views import execution_view, history_view

LOOK_SECONDS = 0.02
NOTES = "ORBIT_TEST_NOTES"  # names the file in which handlers write what they do


def wait_for(condition: Callable[[], Any], seconds: float = 30) -> Any:
    """Return what the condition returns as soon as it is true; fail when that takes longer."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, f"not true within {seconds} s"
        Event().wait(LOOK_SECONDS)
    return found


def wait_until_alone() -> None:
    """Wait until no thread of a worker is left that an earlier test has ended; it may have a connection open."""
    wait_for(lambda: not [thread for thread in threading.enumerate() if thread.name.startswith("orbit-")])


class Call(NamedTuple):
    """One request that reached the runtime."""

    at: float  # monotonic seconds
    name: str


class ListeningFaults(Faults):
    """Faults that write down every request they see."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[Call] = []

    def before(self, request: Request, host: Host) -> Answer | None:
        self.calls.append(Call(time.monotonic(), request.call))
        return super().before(request, host)

    def times(self, name: str, since: float = 0.0) -> list[float]:
        """Return when a call was made, from a moment on."""
        return [call.at for call in self.calls if call.name == name and call.at >= since]


class WorkerProcess:
    """One `manage.py orbit_worker`."""

    def __init__(self, arguments: tuple[str, ...], environment: dict[str, str], log: Path) -> None:
        self._log = log
        command = [sys.executable, "-m", "django", "orbit_worker", *arguments]
        with log.open("wb") as file:
            self.process = subprocess.Popen(command, env=environment, stdout=file, stderr=file)

    def log(self) -> str:
        return self._log.read_text(encoding="utf-8")

    def signal(self, number: int = signal.SIGTERM) -> float:
        """Send a signal; return when, in monotonic seconds."""
        self.process.send_signal(number)
        return time.monotonic()

    def exit_code(self, seconds: float = 10) -> int:
        """Return the exit code, which must come within the time."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the worker did not end within {seconds} s\n{self.log()}") from None

    def kill(self) -> None:
        """Kill -9; processes that this one supervises end by themselves."""
        self.process.kill()
        self.process.wait(10)


class Watched:
    """What is seen of the executions of a runtime in this process, and of the handlers of worker processes."""

    runtime: EmbeddedRuntime
    _notes: Path

    def cancel(self, execution_id: str) -> None:
        with self.runtime.changing() as runtime:
            runtime.cancel(execution_id)

    def view(self, execution_id: str) -> dict[str, Any]:
        with self.runtime.lock:
            return execution_view(self.runtime.runtime.state.execution(execution_id))

    def end_of(self, execution_id: str, seconds: float = 20) -> dict[str, Any]:
        """Wait until an execution has ended; return what the runtime shows of it."""
        wait_for(lambda: self.view(execution_id)["status"] != "RUNNING", seconds)
        return self.view(execution_id)

    def events(self, execution_id: str, kind: str) -> list[dict[str, Any]]:
        """Return the events of one kind in the history of an execution."""
        with self.runtime.lock:
            history = history_view(self.runtime.runtime, execution_id)
        return [event for event in history if event["event"] == kind]

    def notes(self, word: str = "") -> list[str]:
        """Return the lines that handlers of worker processes wrote, those that begin with a word."""
        return [line for line in self._notes.read_text(encoding="utf-8").splitlines() if line.startswith(word)]


class Stage(Watched):
    """A runtime in this process, and the worker processes that work for it."""

    def __init__(self, runtime: EmbeddedRuntime, environment: dict[str, str], folder: Path) -> None:
        assert isinstance(runtime.faults, ListeningFaults)
        self.runtime = runtime
        self.faults = runtime.faults
        self.workers: list[WorkerProcess] = []
        self._notes = folder / "notes"
        self._notes.touch()
        self._folder = folder
        self.environment = environment | {"ORBIT_SERVER": runtime.url, NOTES: str(self._notes)}

    def worker(self, *arguments: str, **environment: str) -> WorkerProcess:
        """Start a worker of the test tasks; it need not have registered yet."""
        log = self._folder / f"worker-{len(self.workers) + 1}.log"
        worker = WorkerProcess(("--task", "test.*", *arguments), self.environment | environment, log)
        self.workers.append(worker)
        return worker

    def idle_worker(self, *arguments: str) -> WorkerProcess:
        """Start a worker and wait until it polls."""
        began = time.monotonic()
        worker = self.worker(*arguments)
        wait_for(lambda: self.faults.times("poll", began), 20)
        return worker

    def close(self) -> None:
        """Leave no process behind."""
        for worker in self.workers:
            worker.kill()

    def start(self, execution_id: str, workflow: str = "Charge", **given: Any) -> None:
        with self.runtime.changing() as runtime:
            runtime.start(workflow, {"seconds": 0.0} | given, execution_id)

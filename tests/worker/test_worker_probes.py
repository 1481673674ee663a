"""What the probes of a whole worker tell while something is lost on purpose."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from orbit_django import outbox
from orbit_django.clock import SystemClock
from orbit_django.conf import OrbitSettings
from orbit_django.exceptions import NoAnswerError
from orbit_django.worker.probes.address import listen
from orbit_django.worker.probes.server import ProbeServer
from orbit_django.worker.runner import StoppedError
from orbit_django.worker.worker import Worker
from tests.probing import GOOD, ask
from tests.processes import Stage, WorkerProcess, wait_for
from tests.worker.staging import begun
from tests.worker.words import HookedTransport, assignment, task


class JumpingClock(SystemClock):
    """The machine's clock, which a test may put forward."""

    jumped = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.jumped


class Watched(NamedTuple):
    """A worker on threads of this process, with its probes."""

    worker: Worker
    transport: HookedTransport
    clock: JumpingClock
    port: int

    def ask(self, path: str) -> tuple[int, str]:
        return ask(self.port, path)

    def jump(self, seconds: float) -> None:
        """Let everybody's time go forward, and wait until whoever still comes round has done so."""
        self.clock.jumped += seconds
        wait_for(lambda: self.worker.vitals.looked_at > self.clock.monotonic() - 2)


class Polls:
    """What becomes of polls: a short wait, then an empty answer, or none while the runtime is away."""

    def __init__(self, transport: HookedTransport) -> None:
        self.is_away = False
        transport.during["poll"] = self

    def __call__(self) -> None:
        threading.Event().wait(0.05)
        if self.is_away:
            raise NoAnswerError("down", is_maybe_processed=False)


@pytest.fixture
def watched(transactional_db: None) -> Iterator[Watched]:
    transport, clock = HookedTransport(), JumpingClock()
    Polls(transport)
    worker = Worker(OrbitSettings(concurrency=2), [task(print)], transport, clock)
    listening = listen("127.0.0.1", 0)
    probes = ProbeServer(listening, worker.health)
    made = Watched(worker, transport, clock, listening.getsockname()[1])
    probes.start()
    running = threading.Thread(target=worker.run)
    running.start()
    yield made
    worker.stop()
    running.join(15)
    probes.close()
    wait_for(lambda: not [thread for thread in threading.enumerate() if thread.name.startswith("orbit-")])


def end_thread(name: str) -> None:
    """Have a thread's next step say that all is over."""

    def over() -> float:
        raise StoppedError

    (thread,) = (thread for thread in threading.enumerate() if thread.name == f"orbit-{name}")
    thread.loop.step = over


@pytest.mark.promise("W1", "W10")
@pytest.mark.parametrize("name", ["heartbeat", "relay", "sender-2", "claims", "loop-1"])
def test_a_thread_that_is_lost_is_told(watched: Watched, name: str) -> None:
    wait_for(lambda: watched.ask("/readyz") == GOOD)
    assert watched.ask("/livez") == GOOD
    end_thread(name)
    wait_for(lambda: watched.ask("/livez") != GOOD)

    assert watched.ask("/livez") == (503, f"{name}: its thread has ended\n")
    assert watched.ask("/readyz")[0] == 503


@pytest.mark.promise("W10")
def test_without_its_runtime_a_worker_is_not_ready_after_the_limit_and_lives_on(watched: Watched) -> None:
    wait_for(lambda: watched.ask("/readyz") == GOOD)
    polls = watched.transport.during["poll"]
    polls.is_away = True
    watched.jump(40)
    assert watched.ask("/readyz") == GOOD, "an answer may still come"
    watched.jump(10)
    status, text = watched.ask("/readyz")
    assert status == 503
    assert [line[:28] for line in text.splitlines()] == [f"loop-{n}: no poll was answered" for n in (1, 2)]
    assert watched.ask("/livez") == GOOD
    polls.is_away = False
    wait_for(lambda: watched.ask("/readyz") == GOOD)


@pytest.mark.promise("W10", "W7")
def test_with_a_database_that_hangs_a_worker_is_not_ready(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    wait_for(lambda: watched.ask("/readyz") == GOOD)
    back, asked = threading.Event(), threading.Event()

    def hang(*given: object, **options: object) -> list[object]:
        asked.set()
        back.wait(30)
        return []

    monkeypatch.setattr(outbox, "claim_due", hang)
    assert asked.wait(10)
    watched.clock.jumped += 20
    wait_for(lambda: watched.ask("/readyz")[0] == 503, 5)
    began = time.monotonic()
    status, text = watched.ask("/readyz")
    assert (status, text.startswith("the database has not answered for 2")) == (503, True)
    assert time.monotonic() - began < 1
    assert watched.ask("/livez") == GOOD
    back.set()
    wait_for(lambda: watched.ask("/readyz") == GOOD)


@pytest.mark.promise("W10", "W1")
def test_a_handler_that_runs_for_long_is_no_fault(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    wait_for(lambda: watched.ask("/readyz") == GOOD)
    began, leave = threading.Event(), threading.Event()

    def run(self: object, delivery: object, scope: object) -> dict[str, str]:
        began.set()
        leave.wait(30)
        return {}

    monkeypatch.setattr("orbit_django.worker.ledger.Ledger.invoke", run)
    watched.transport.script("poll", assignment())
    assert began.wait(10)
    watched.clock.jumped += 100_000
    wait_for(lambda: watched.ask("/readyz") == GOOD, 3)
    assert watched.ask("/livez") == GOOD
    leave.set()


def probed(stage: Stage, *arguments: str) -> tuple[WorkerProcess, int]:
    """Start a worker process with probes; return it with its port once it is ready."""
    with listen("127.0.0.1", 0) as free:
        port = free.getsockname()[1]
    worker = stage.worker("--health", str(port), *arguments)
    wait_for(lambda: ask(port, "/readyz") == GOOD, 20)
    return worker, port


@pytest.mark.promise("W1", "W10")
@pytest.mark.databases
def test_a_worker_process_tells_of_a_lost_thread(stage: Stage) -> None:
    _, port = probed(stage)
    assert ask(port, "/livez") == GOOD
    stage.start("broken", "Sabotage")
    wait_for(lambda: ask(port, "/livez") == (503, "relay: its thread has ended\n"))
    assert ask(port, "/readyz")[0] == 503


@pytest.mark.promise("W10")
def test_a_worker_process_that_drains_lives_and_is_not_ready(stage: Stage) -> None:
    worker, port = probed(stage)
    stage.start("long", "Hold", seconds=2.0)
    begun(stage)
    worker.signal()
    wait_for(lambda: ask(port, "/readyz") == (503, "draining: no new work is taken\n"))
    assert ask(port, "/livez") == GOOD
    assert worker.exit_code() == 0
    assert ask(port, "/livez") == (0, "")
    assert stage.view("long")["status"] == "COMPLETED"


@pytest.mark.promise("W10", "D6")
def test_a_worker_process_that_waits_for_its_runtime_lives_and_is_not_ready(stage: Stage) -> None:
    stage.runtime.stop()
    with listen("127.0.0.1", 0) as free:
        port = free.getsockname()[1]
    stage.worker("--health", f"localhost:{port}")
    wait_for(lambda: ask(port, "/livez") == GOOD, 20)
    assert "not registered with the runtime\n" in ask(port, "/readyz")[1]
    stage.runtime.start()
    wait_for(lambda: ask(port, "/readyz") == GOOD, 20)


@pytest.mark.promise("W8")
def test_a_port_in_use_stops_a_worker_before_it_registers(stage: Stage) -> None:
    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        worker = stage.worker("--health", str(port))
        assert worker.exit_code(20) == 2

    assert worker.log() == f"CommandError: --health: cannot listen on 127.0.0.1:{port}: Address already in use\n"
    assert stage.faults.times("register") == []


@pytest.mark.promise("W1", "W10")
def test_the_supervisor_tells_of_a_process_that_is_lost_and_started_again(stage: Stage) -> None:
    with listen("127.0.0.1", 0) as free:
        port = free.getsockname()[1]
    worker = stage.worker("--processes", "2", "--health", str(port))
    wait_for(lambda: ask(port, "/readyz") == GOOD, 30)
    stage.start("first")
    stage.end_of("first")
    wait_for(lambda: 'orbit_tasks_total{outcome="complete",task="test.charge"} 1.0' in ask(port, "/metrics")[1])
    (killed,) = (int(line.split()[-1]) for line in stage.notes("end"))
    os.kill(killed, signal.SIGKILL)
    status, text = wait_for(lambda: (told := ask(port, "/livez")) != GOOD and told)
    assert (status, text in ("process 1: not running\n", "process 2: not running\n")) == (503, True)
    assert ask(port, "/readyz") == (503, text)
    wait_for(lambda: ask(port, "/readyz") == GOOD, 30)
    figures = ask(port, "/metrics")[1]

    assert 'orbit_tasks_total{outcome="complete",task="test.charge"} 1.0' in figures, "what it counted is kept"
    assert "orbit_process_restarts_total 1.0" in figures
    assert "orbit_processes 2.0" in figures
    worker.signal()
    assert worker.exit_code(20) == 0


def test_a_worker_process_tells_its_figures(stage: Stage) -> None:
    _, port = probed(stage)
    stage.start("one")
    stage.end_of("one")
    text = wait_for(lambda: (told := ask(port, "/metrics")[1]) and "orbit_handler_seconds_count" in told and told)

    assert 'orbit_handler_seconds_count{task="test.charge"} 1.0' in text
    assert 'orbit_delivery_attempts_total{result="delivered"} 1.0' in text
    assert 'orbit_outbox_messages{database="default",status="pending"} 0.0' in text
    assert "orbit_session_registrations_total 1.0" in text
    assert "orbit_loops 4.0" in text

"""The wall clock of the machine steps by hours, there and back, at every look: nothing here goes by it."""

import itertools
import threading
from collections.abc import Iterator

import pytest

from orbit_django.clock import SystemClock
from orbit_django.conf import OrbitSettings
from orbit_django.contracts import read
from orbit_django.embedded.server import EmbeddedRuntime
from orbit_django.embedded.views import execution_view
from orbit_django.models import OutboxMessage
from orbit_django.protocol import Assignment
from orbit_django.tasks import registry
from orbit_django.transports.http import HttpTransport
from orbit_django.worker.worker import Worker
from tests.processes import ListeningFaults, wait_for
from tests.testapp.models import Charge
from tests.worker.staging import HURRY, WORKFLOWS
from tests.worker.words import context

pytestmark = [pytest.mark.promise("W4"), pytest.mark.django_db(transaction=True)]

HOURS = 5 * 3_600.0


class SteppingClock(SystemClock):
    """A clock whose wall time jumps with each look."""

    def __init__(self) -> None:
        self._steps = itertools.cycle([HOURS, -HOURS, 0.0])

    def wall(self) -> float:
        return super().wall() + next(self._steps)


@pytest.fixture
def runtime() -> Iterator[EmbeddedRuntime]:
    with EmbeddedRuntime(read(WORKFLOWS + HURRY), session_timeout_ms=3_000, faults=ListeningFaults()) as made:
        yield made


def left() -> list[str]:
    """Return the threads of workers that are still there."""
    names = [thread.name for thread in threading.enumerate()]
    return [name for name in names if name.startswith("orbit-") and not name.startswith("orbit-runtime")]


@pytest.fixture
def worker(runtime: EmbeddedRuntime) -> Iterator[Worker]:
    """Yield a worker in a thread of this process, under a clock that steps."""
    settings = OrbitSettings(server=runtime.url, concurrency=3, claim_seconds=1, worker_id="w")
    transport = HttpTransport(runtime.url, credential=lambda: None)
    made = Worker(settings, registry.select(["test.*"], []), transport, clock=SteppingClock())
    running = threading.Thread(target=made.run)
    running.start()
    yield made
    made.stop()
    running.join(20)
    wait_for(lambda: not left(), 30)
    assert not running.is_alive()


def test_heartbeats_claims_retries_and_timeouts_go_on(runtime: EmbeddedRuntime, worker: Worker) -> None:
    faults = runtime.faults
    past = faults.add("set", "assignment", value={"deadline_ms": 1}, times=2)  # long ago; what counts is timeout_ms
    faults.add("status", "complete", value=503, times=3, skip=1)

    def end_of(name: str) -> dict[str, object]:
        wait_for(lambda: execution_view(runtime.runtime.state.execution(name))["status"] != "RUNNING", 20)
        return execution_view(runtime.runtime.state.execution(name))

    with runtime.changing() as rules:
        rules.start("Hurry", {"seconds": 0.4}, "in-time")
        rules.start("Hurry", {"seconds": 40.0}, "late")
    wait_for(lambda: past.times == 0, 20)
    with runtime.changing() as rules:
        rules.start("Hold", {"seconds": 3.5}, "long")
    assert end_of("in-time")["status"] == "COMPLETED", "a deadline long ago means nothing beside a timeout"
    assert "TIMEOUT" in str(end_of("late")["error"])
    assert end_of("long")["status"] == "COMPLETED"
    wait_for(lambda: not OutboxMessage.objects.pending().exists(), 20)

    assert len(faults.times("register")) == 1
    beats = faults.times("heartbeat")
    assert max(after - before for before, after in itertools.pairwise(beats)) < 2
    assert Charge.objects.count() == 2


@pytest.mark.parametrize("deadline_ms", [1, -(2**63), 2**63 - 1])
def test_a_deadline_is_ignored_beside_a_timeout(deadline_ms: int) -> None:
    given = context(clock=SteppingClock(), deadline_ms=deadline_ms, timeout_ms=60_000)
    assert 59_000 < (given.remaining_ms or 0) <= 60_000
    assert not given.is_cancelled
    assert given.deadline is not None


@pytest.mark.parametrize(
    "given", [{"timeout_ms": -5}, {"timeout_ms": 0}, {"timeout_ms": "60000"}, {"deadline_ms": 1e300}]
)
def test_odd_times_are_read_or_refused_but_break_nothing(given: dict[str, object]) -> None:
    texts = dict.fromkeys(("token", "execution_id", "workflow", "workflow_version", "step_id", "task_name"), "x")
    fields = {**texts, "contract_version": "1", "idempotency_key": "k", "input": None, **given}
    read_one = Assignment.from_wire(fields)
    assert (read_one.timeout_ms, read_one.deadline_ms) in [(-5, None), (0, None), (60_000, None), (None, 2**63 - 1)]

"""Handlers that leave the other threads little time, and one that leaves them none."""

import itertools
import time

import pytest

from orbit_django.models import OutboxMessage
from tests.processes import Stage, wait_for
from tests.testapp.models import Charge
from tests.worker.answering import IS_LONG
from tests.worker.staging import begun, dispatches, short_session

LOOPS = 8
SECONDS = 30.0 if IS_LONG else 7.0

pytestmark = [pytest.mark.timeout(180), short_session]


@pytest.mark.promise("W1", "W2")
def test_no_session_is_lost_while_every_loop_computes(stage: Stage) -> None:
    worker = stage.idle_worker("--concurrency", str(LOOPS))
    names = [f"busy-{number}" for number in range(LOOPS)]
    for name in names:
        stage.start(name, "Spin", seconds=SECONDS)
    begun(stage, LOOPS)
    began = time.monotonic()
    for name in names:
        assert stage.end_of(name, SECONDS + 60)["status"] == "COMPLETED"
    beats = [began, *stage.faults.times("heartbeat", began)]
    gaps = [after - before for before, after in itertools.pairwise(beats)]
    print(f"{LOOPS} loops, {SECONDS} s: {len(gaps)} beats, the longest pause {max(gaps):.2f} s")

    assert [dispatches(stage, name) for name in names] == [1] * LOOPS
    assert len(stage.faults.times("register")) == 1
    assert "does not know the session" not in worker.log()


@pytest.mark.promise("E2", "E3", "W3")
def test_a_handler_that_holds_the_interpreter_lock_loses_the_session_and_takes_effect_once(stage: Stage) -> None:
    worker = stage.idle_worker("--concurrency", "2")
    stage.start("seized", "Seize", seconds=5.0)
    begun(stage)
    began = time.monotonic()

    assert stage.end_of("seized")["status"] == "COMPLETED"
    assert stage.events("seized", "StepAttemptUncertain"), "the runtime heard nothing for longer than the timeout"
    wait_for(lambda: len(stage.faults.times("register", began)) == 1)
    wait_for(lambda: not OutboxMessage.objects.pending().exists())
    assert Charge.objects.count() == 1
    assert worker.process.poll() is None

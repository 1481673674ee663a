"""SIGTERM and SIGINT at every inconvenient moment."""

import signal
import time
from threading import Event

import pytest

from orbit_django.models import OutboxMessage
from tests.processes import Stage, wait_for
from tests.testapp.models import Charge
from tests.transports import wire
from tests.worker.staging import begun, dispatches, reports, short_session

pytestmark = [pytest.mark.promise("W5")]


def ends(stage: Stage, number: int = signal.SIGTERM, *, within: float, code: int = 0) -> None:
    """Send the last worker a signal and see that it ends in time, with this code and without a traceback."""
    worker = stage.workers[-1]
    sent_at = worker.signal(number)
    assert worker.exit_code(within + 10) == code
    assert time.monotonic() - sent_at < within
    assert "Traceback" not in worker.log()


@pytest.mark.parametrize(
    ("kind", "value", "number"),
    [
        ("hold", 1_500, signal.SIGTERM),
        ("hold", 20_000, signal.SIGINT),
        ("status", 503, signal.SIGTERM),
        ("status", 429, signal.SIGINT),
    ],
)
def test_in_a_registration(stage: Stage, kind: str, value: int, number: int) -> None:
    stage.faults.add(kind, "register", value=value, times=None)
    stage.worker()
    wait_for(lambda: stage.faults.times("register"), 20)
    Event().wait(0.3)

    ends(stage, number, within=3)


def test_while_a_refused_registration_is_waited_out(stage: Stage) -> None:
    stage.idle_worker()
    stage.faults.add("status", "register", value=(403, "FORBIDDEN"), times=None)
    stage.faults.add("status", "poll", value=(404, "UNKNOWN_SESSION"), times=None)
    for number in range(4):  # ends the polls that are open
        stage.start(f"e-{number}")
    wait_for(lambda: "refuses to register this worker again" in stage.workers[-1].log(), 20)

    ends(stage, within=3)


def test_where_connections_are_taken_and_nobody_speaks(stage: Stage) -> None:
    with wire.listening() as port:
        stage.worker(ORBIT_SERVER=f"http://127.0.0.1:{port}")
        wait_for(lambda: "the worker started" in stage.workers[-1].log(), 20)
        Event().wait(0.3)
        ends(stage, within=3)


def test_where_answers_come_byte_by_byte(stage: Stage) -> None:
    with wire.serving(wire.trickle(b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n")) as server:
        stage.worker(ORBIT_SERVER=server.url)
        wait_for(lambda: server.requests, 20)
        ends(stage, within=3)


def test_while_polls_back_off(stage: Stage) -> None:
    stage.faults.add("status", "poll", value=500, times=None)
    stage.worker()
    wait_for(lambda: len(stage.faults.times("poll")) >= 8, 20)

    ends(stage, signal.SIGINT, within=2)
    assert stage.faults.calls[-1].name == "unregister"


@short_session
@pytest.mark.promise("E7")
def test_a_task_that_comes_just_after_the_signal_is_delivered_again_at_once(stage: Stage) -> None:
    stage.faults.add("delay", "poll", value=2_000)
    stage.worker("--concurrency", "1")
    stage.start("late")
    wait_for(lambda: dispatches(stage, "late"), 20)

    ends(stage, within=2)
    assert stage.events("late", "StepAttemptUncertain"), "not after the session timeout: at once"
    assert reports(stage) == 0
    stage.idle_worker("--concurrency", "1")
    assert stage.end_of("late")["status"] == "COMPLETED"
    assert (Charge.objects.count(), dispatches(stage, "late")) == (1, 2)


@short_session
@pytest.mark.promise("E7")
def test_a_task_that_comes_while_another_is_waited_for_is_run_to_its_end(stage: Stage) -> None:
    stage.idle_worker("--concurrency", "2")
    stage.start("first", "Hold", seconds=3.0)
    begun(stage)
    stage.faults.add("delay", "poll", value=1_500)
    stage.start("second")
    wait_for(lambda: dispatches(stage, "second"), 20)

    ends(stage, within=6)
    assert [stage.view(name)["status"] for name in ("first", "second")] == ["COMPLETED", "COMPLETED"]
    assert dispatches(stage, "second") == 1


def test_a_handler_that_listens_to_nobody_ends_with_the_drain_timeout(stage: Stage) -> None:
    stage.idle_worker("--drain-timeout", "0.5")
    stage.start("deaf", seconds=60.0)
    begun(stage)

    ends(stage, within=5, code=1)
    assert stage.faults.calls[-1].name == "unregister"
    assert (Charge.objects.count(), OutboxMessage.objects.count()) == (0, 0)


@pytest.mark.parametrize("way", ["hold", "drop"])
def test_a_runtime_that_hangs_is_told_once_that_the_session_ends(stage: Stage, way: str) -> None:
    stage.idle_worker()
    stage.faults.add("hold", "heartbeat", value=20_000, times=None)
    stage.faults.add(way, "unregister", times=None, value=20_000 if way == "hold" else None)

    ends(stage, within=4.5)
    assert len(stage.faults.times("unregister")) == 1


def test_a_result_and_a_runtime_that_hangs_take_the_time_of_both(stage: Stage) -> None:
    stage.faults.add("hold", "complete", value=20_000, times=None)
    stage.faults.add("hold", "unregister", value=20_000, times=None)
    stage.idle_worker()
    stage.start("owed")
    wait_for(lambda: stage.faults.times("complete"), 20)

    ends(stage, within=9.5)
    assert OutboxMessage.objects.get().status == "pending"

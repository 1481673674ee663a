import signal
import threading
import time

import pytest
from django.db.backends.signals import connection_created

from orbit_django.conf import OrbitSettings
from orbit_django.models import IdempotencyRecord, OutboxMessage
from orbit_django.protocol import Session
from orbit_django.worker.worker import Worker
from tests.processes import Stage, wait_for
from tests.testapp.models import Charge
from tests.worker.staging import begun, dispatches, reports, short_session
from tests.worker.words import HookedTransport, task

STOPS = "the worker stops"


@pytest.mark.promise("W2", "W5")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_idle_poll_does_not_delay_the_end(stage: Stage, number: int) -> None:
    worker = stage.idle_worker()
    sent_at = worker.signal(number)

    assert worker.exit_code() == 0
    assert time.monotonic() - sent_at < 2
    assert stage.faults.calls[-1].name == "unregister"
    assert "Traceback" not in worker.log()


@pytest.mark.promise("W2", "W5")
@pytest.mark.django_db(transaction=True)
def test_a_beat_on_its_way_ends_before_the_session_is_given_back() -> None:
    transport, beating, order = HookedTransport(), threading.Event(), []

    def beat() -> None:
        beating.set()
        threading.Event().wait(0.3)
        order.append([name for name in transport.names() if name == "unregister"])

    receivers = list(connection_created.receivers)
    transport.during["heartbeat"] = beat
    transport.script("register", Session("session-1", 1, 30_000))
    worker = Worker(OrbitSettings(concurrency=1), [task(print)], transport)
    running = threading.Thread(target=worker.run)
    running.start()
    assert beating.wait(10)
    worker.stop()
    running.join(10)
    wait_for(lambda: not [thread for thread in threading.enumerate() if thread.name.startswith("orbit-")])

    assert order != []
    assert [names for names in order if names] == [], "no beat ended after it"
    assert transport.names()[-1] == "unregister"
    assert list(connection_created.receivers) == receivers, "other connections of the process are left alone again"


@pytest.mark.promise("W2", "W5", "E7")
@short_session
def test_a_handler_that_outlives_the_session_timeout_is_waited_for_and_reported(stage: Stage) -> None:
    worker = stage.idle_worker("--concurrency", "2")
    stage.start("long", seconds=5.0)
    begun(stage)
    sent_at = worker.signal()

    assert worker.exit_code(15) == 0
    assert stage.view("long")["status"] == "COMPLETED"
    assert dispatches(stage, "long") == 1, "nothing was delivered again"
    assert Charge.objects.count() == 1
    assert stage.faults.times("poll", sent_at + 0.5) == []
    assert len(stage.faults.times("heartbeat", sent_at)) >= 6
    assert stage.faults.calls[-1].name == "unregister"


@pytest.mark.promise("W5")
@pytest.mark.databases
@pytest.mark.parametrize("workflow", ["Hold", "Charge"])
def test_a_second_signal_ends_at_once_and_reports_nothing(stage: Stage, workflow: str) -> None:
    worker = stage.idle_worker("--concurrency", "1")
    stage.start("long", workflow, seconds=40.0)
    begun(stage)
    worker.signal()
    wait_for(lambda: STOPS in worker.log())
    sent_at = worker.signal()

    assert worker.exit_code() == 1
    assert time.monotonic() - sent_at < (2 if workflow == "Hold" else 4)
    assert (reports(stage), OutboxMessage.objects.count(), Charge.objects.count()) == (0, 0, 0)
    assert not IdempotencyRecord.objects.exclude(status="running").exists()
    stage.idle_worker("--concurrency", "1")
    assert stage.end_of("long")["status"] == "COMPLETED", "the next worker has it at once"
    assert Charge.objects.count() == 1


@pytest.mark.promise("W5")
def test_the_drain_timeout_is_as_good_as_a_second_signal(stage: Stage) -> None:
    worker = stage.idle_worker("--drain-timeout", "0.5")
    stage.start("long", "Hold", seconds=40.0)
    begun(stage)
    sent_at = worker.signal()

    assert worker.exit_code() == 1
    assert 0.5 <= time.monotonic() - sent_at < 3
    assert stage.notes("cancelled-by-shutdown")
    assert reports(stage) == 0
    assert stage.faults.calls[-1].name == "unregister"
    assert stage.events("long", "StepAttemptUncertain")


@pytest.mark.promise("W5")
def test_ctrl_c_lets_the_handler_end(stage: Stage) -> None:
    worker = stage.idle_worker()
    stage.start("short", seconds=0.7)
    begun(stage)
    worker.signal(signal.SIGINT)

    assert worker.exit_code() == 0
    assert stage.view("short")["status"] == "COMPLETED"
    assert [call.name for call in stage.faults.calls[-2:]] == ["complete", "unregister"]


@pytest.mark.promise("W5", "D1")
@pytest.mark.databases
def test_what_the_runtime_does_not_take_is_left_for_the_next_worker(stage: Stage) -> None:
    fault = stage.faults.add("status", "complete", value=503, times=None)
    worker = stage.idle_worker("--worker-id", "first")
    stage.start("owed")
    wait_for(lambda: len(stage.faults.times("complete")) > 1)
    sent_at = worker.signal()

    assert worker.exit_code() == 0
    assert 4 <= time.monotonic() - sent_at < 9
    assert OutboxMessage.objects.get().status == "pending"
    fault.times = 0
    stage.idle_worker("--worker-id", "second")
    assert stage.end_of("owed")["status"] == "COMPLETED"
    assert Charge.objects.count() == 1


@pytest.mark.promise("W5")
def test_a_runtime_that_hangs_does_not_hold_up_the_end(stage: Stage) -> None:
    worker = stage.idle_worker()
    stage.faults.add("delay", "unregister", value=20_000)
    sent_at = worker.signal()

    assert worker.exit_code() == 0
    assert time.monotonic() - sent_at < 4


@pytest.mark.promise("W5")
def test_a_worker_that_waits_for_its_runtime_can_be_stopped(stage: Stage) -> None:
    stage.runtime.stop()
    worker = stage.worker()
    wait_for(lambda: "the runtime cannot be reached" in worker.log(), 20)
    sent_at = worker.signal()

    assert worker.exit_code() == 0
    assert time.monotonic() - sent_at < 2

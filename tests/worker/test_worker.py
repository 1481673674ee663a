import itertools
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.db.backends.signals import connection_created

from orbit_django.conf import OrbitSettings
from orbit_django.contracts import read
from orbit_django.embedded.server import EmbeddedRuntime
from orbit_django.models import IdempotencyRecord, OutboxMessage
from orbit_django.protocol import Session
from orbit_django.worker.worker import Worker
from tests.processes import ListeningFaults, Stage, WorkerProcess, wait_for
from tests.testapp.models import Charge
from tests.worker.words import HookedTransport, task

TASK = """
task "test.{task}" {{ version "1.0.0" input {{ seconds: Float }} output {{ charge: String }} }}
workflow {name} {{
  version "1.0.0"
  input {{ seconds: Float }}
  output {{ charge: String }}
  step only {{ worker "test.{task}" with {{ seconds: input.seconds }} }}
  return {{ charge: only.charge }}
}}
"""
HURRY = """
workflow Hurry {
  version "1.0.0"
  input { seconds: Float }
  output { charge: String }
  step only { worker "test.hold" with { seconds: input.seconds } timeout 1s }
  return { charge: only.charge }
}
"""
WORKFLOWS = "".join(TASK.format(task=name.lower(), name=name) for name in ("Charge", "Hold", "Spin", "Litter"))
STOPS = "the worker stops"


@pytest.fixture
def timeout_ms() -> int:
    """Return the session timeout of the runtime; a test may ask for another."""
    return 30_000


@pytest.fixture
def stage(child_environment: dict[str, str], tmp_path: Path, timeout_ms: int) -> Iterator[Stage]:
    catalog = read(WORKFLOWS + HURRY)
    with EmbeddedRuntime(catalog, session_timeout_ms=timeout_ms, faults=ListeningFaults()) as runtime:
        stage = Stage(runtime, child_environment, tmp_path)
        yield stage
        stage.close()


short_session = pytest.mark.parametrize("timeout_ms", [3_000])


def begun(stage: Stage, count: int = 1) -> None:
    wait_for(lambda: len(stage.notes("begin")) >= count, 20)


def dispatches(stage: Stage, execution_id: str) -> int:
    return len(stage.events(execution_id, "StepDispatched"))


def reports(stage: Stage) -> int:
    return len(stage.faults.times("complete")) + len(stage.faults.times("fail"))


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

    transport.during["heartbeat"] = beat
    transport.script("register", Session("session-1", 1, 30_000))
    worker = Worker(OrbitSettings(concurrency=1), [task(print)], transport)
    running = threading.Thread(target=worker.run)
    running.start()
    assert beating.wait(10)
    worker.stop()
    running.join(10)
    connection_created.disconnect(dispatch_uid="orbit_django.worker")
    wait_for(lambda: not [thread for thread in threading.enumerate() if thread.name.startswith("orbit-")])

    assert order != []
    assert [names for names in order if names] == [], "no beat ended after it"
    assert transport.names()[-1] == "unregister"


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


@pytest.mark.promise("D1")
@pytest.mark.databases
def test_what_a_killed_worker_owed_is_sent_by_the_next(stage: Stage) -> None:
    fault = stage.faults.add("status", "complete", value=503, times=None)
    worker = stage.idle_worker("--worker-id", "same")
    stage.start("owed")
    wait_for(lambda: stage.faults.times("complete"))
    worker.kill()
    fault.times = 0
    stage.idle_worker("--worker-id", "same")

    assert stage.end_of("owed", 25)["status"] == "COMPLETED"
    assert (Charge.objects.count(), dispatches(stage, "owed")) == (1, 1)


@pytest.mark.promise("W5")
def test_a_runtime_that_hangs_does_not_hold_up_the_end(stage: Stage) -> None:
    worker = stage.idle_worker()
    stage.faults.add("delay", "unregister", value=20_000)
    sent_at = worker.signal()

    assert worker.exit_code() == 0
    assert time.monotonic() - sent_at < 4


@pytest.mark.promise("W3", "D1")
@short_session
def test_a_restart_of_the_runtime_costs_one_registration_and_no_run(stage: Stage) -> None:
    stage.idle_worker()
    stage.start("long", seconds=2.0)
    begun(stage)
    stage.runtime.restart()
    restarted_at = time.monotonic()

    assert stage.end_of("long")["status"] == "COMPLETED"
    assert dispatches(stage, "long") == 1
    assert wait_for(lambda: stage.faults.times("poll", restarted_at))
    assert wait_for(lambda: len(stage.faults.times("heartbeat", restarted_at)) > 3)
    assert len(stage.faults.times("register", restarted_at)) == 1
    stage.start("next")
    assert stage.end_of("next")["status"] == "COMPLETED"


@pytest.mark.promise("W8", "D6")
def test_a_runtime_that_is_down_at_the_start_is_waited_for(stage: Stage) -> None:
    stage.runtime.stop()
    worker = stage.worker()
    wait_for(lambda: worker.log().count("the runtime cannot be reached") >= 2, 20)
    assert worker.log().count("the runtime cannot be reached") < 10
    stage.runtime.start()
    stage.start("late")

    assert stage.end_of("late")["status"] == "COMPLETED"
    assert len(stage.faults.times("register")) == 1
    worker.signal()
    assert worker.exit_code() == 0


@pytest.mark.promise("W5")
def test_a_worker_that_waits_for_its_runtime_can_be_stopped(stage: Stage) -> None:
    stage.runtime.stop()
    worker = stage.worker()
    wait_for(lambda: "the runtime cannot be reached" in worker.log(), 20)
    sent_at = worker.signal()

    assert worker.exit_code() == 0
    assert time.monotonic() - sent_at < 2


@pytest.mark.promise("D6", "D1")
@pytest.mark.databases
@short_session
def test_while_the_runtime_is_away_handlers_end_and_commit_and_nothing_begins(stage: Stage) -> None:
    worker = stage.idle_worker()
    stage.start("long", seconds=1.0)
    begun(stage)
    stage.runtime.stop()

    wait_for(lambda: OutboxMessage.objects.filter(status="pending", attempts__gte=2).exists())
    assert Charge.objects.count() == 1
    wait_for(lambda: len(stage.notes("end")) == 1)
    assert worker.log().count("a poll got no answer") < 40
    stage.runtime.start()
    assert stage.end_of("long")["status"] == "COMPLETED"
    assert Charge.objects.count() == 1


@pytest.mark.promise("W2")
@short_session
def test_heartbeats_keep_their_pace_while_every_loop_is_in_a_handler(stage: Stage) -> None:
    stage.idle_worker("--concurrency", "2")
    stage.start("sleeping", "Hold", seconds=3.5)
    stage.start("spinning", "Spin", seconds=3.5)
    begun(stage, 2)
    began = time.monotonic()
    assert stage.end_of("sleeping")["status"] == stage.end_of("spinning")["status"] == "COMPLETED"
    beats = stage.faults.times("heartbeat", began)

    assert dispatches(stage, "sleeping") == dispatches(stage, "spinning") == 1
    assert len(beats) >= 5
    assert max(after - before for before, after in itertools.pairwise([began, *beats])) < 1.5


def refused(worker: WorkerProcess) -> list[str]:
    """Return what a worker told a person: the lines that are not of the log."""
    return [line for line in worker.log().splitlines() if not line[:4].isdigit()]


@pytest.mark.promise("W8", "W9")
def test_a_refused_registration_ends_the_worker_with_one_line(
    child_environment: dict[str, str], tmp_path: Path
) -> None:
    runtime = EmbeddedRuntime(read(WORKFLOWS), worker_token="right", token="admin", faults=ListeningFaults())
    with runtime:
        stage = Stage(runtime, child_environment, tmp_path)
        worker = stage.worker(ORBIT_WORKER_TOKEN="wrk-SECRET-1")
        code = worker.exit_code(20)

    assert code == 2
    (line,) = refused(worker)
    assert line.startswith("CommandError: the runtime refuses this worker: 401 UNAUTHENTICATED")
    assert "SECRET" not in worker.log()
    assert "Traceback" not in worker.log()


@pytest.mark.promise("W1")
def test_never_more_handlers_run_than_there_are_loops(stage: Stage) -> None:
    for number in range(10):
        stage.start(f"e-{number}", "Hold", seconds=0.3)
    stage.idle_worker("--concurrency", "3")
    for number in range(10):
        assert stage.end_of(f"e-{number}")["status"] == "COMPLETED"
    steps = [1 if line.startswith("begin") else -1 for line in stage.notes()]

    assert max(itertools.accumulate(steps)) == 3
    assert Charge.objects.count() == 10


@pytest.mark.promise("W1")
def test_a_busy_worker_does_not_poll(stage: Stage) -> None:
    stage.idle_worker("--concurrency", "1")
    stage.start("busy", "Hold", seconds=1.0)
    begun(stage)
    began = time.monotonic()
    stage.end_of("busy")

    assert wait_for(lambda: stage.faults.times("poll", began))[0] - began > 0.8


@pytest.mark.promise("E7")
@pytest.mark.parametrize("kind", ["lost", "garbage"])
def test_a_task_whose_assignment_was_lost_on_the_way_is_delivered_again_soon(stage: Stage, kind: str) -> None:
    stage.faults.add(kind, "poll")
    stage.start("lost")
    stage.worker("--concurrency", "1")

    assert stage.end_of("lost")["status"] == "COMPLETED", "long before the session would time out"
    assert dispatches(stage, "lost") == 2
    assert len(stage.faults.times("register")) == 2
    assert len(stage.faults.times("unregister")) == 1
    assert Charge.objects.count() == 1


@pytest.mark.promise("W4")
def test_the_deadline_reaches_the_handler_without_the_runtime(stage: Stage) -> None:
    stage.idle_worker()
    stage.start("late", "Hurry", seconds=40.0)

    assert wait_for(lambda: stage.notes("cancelled-by"))[0].startswith("cancelled-by-deadline late")
    assert stage.end_of("late")["status"] == "FAILED"


@pytest.mark.promise("W4")
@short_session
def test_a_cancelled_execution_reaches_the_handler(stage: Stage) -> None:
    stage.idle_worker()
    stage.start("unwanted", "Hold", seconds=40.0)
    stage.start("wanted", "Hold", seconds=2.0)
    begun(stage, 2)
    stage.cancel("unwanted")

    assert wait_for(lambda: stage.notes("cancelled-by"))[0].startswith("cancelled-by-runtime unwanted")
    assert stage.end_of("unwanted")["status"] == "CANCELLED"
    assert stage.end_of("wanted")["status"] == "COMPLETED"
    assert len(stage.notes("cancelled-by")) == 1


@pytest.mark.promise("W6", "W1")
@pytest.mark.databases
def test_no_task_finds_what_another_left_and_none_ends_the_worker(stage: Stage) -> None:
    worker = stage.idle_worker("--concurrency", "1")
    for number, seconds in enumerate((0.0, -1.0, 0.0)):
        stage.start(f"e-{number}", "Litter", seconds=seconds)
        stage.end_of(f"e-{number}")
    clean = {"charge": "en UTC []"}

    assert [stage.view(f"e-{number}").get("output") for number in (0, 1, 2)] == [clean, None, clean]
    assert "UNHANDLED_EXCEPTION" in str(stage.view("e-1")["error"])
    worker.signal()
    assert worker.exit_code() == 0

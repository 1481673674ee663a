import itertools
import time
from contextlib import closing
from pathlib import Path

import pytest

from orbit_django.contracts import read
from orbit_django.embedded.server import EmbeddedRuntime
from orbit_django.models import OutboxMessage
from tests.processes import ListeningFaults, Stage, WorkerProcess, wait_for
from tests.testapp.models import Charge
from tests.worker.staging import WORKFLOWS, begun, dispatches, short_session


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
    wait_for(lambda: "the runtime cannot be reached" in worker.log(), 20)
    assert "manage.py orbit_runtime" in worker.log()
    stage.runtime.start()
    stage.start("late")

    assert stage.end_of("late")["status"] == "COMPLETED"
    assert len(stage.faults.times("register")) == 1
    assert worker.log().count("the runtime cannot be reached") <= 2, "at the 1st and the 10th try"
    assert worker.log().count("the runtime is there") == 1
    worker.signal()
    assert worker.exit_code() == 0


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
    with runtime, closing(Stage(runtime, child_environment, tmp_path)) as stage:
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
    assert len(stage.faults.times("poll")) == 2, "one loop, and so one poll at a time"


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

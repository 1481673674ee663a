"""Workers that end by themselves, as real processes: after so many tasks, or when nothing is left to do."""

import os
import signal
import subprocess
import sys
import time

import pytest

from orbit_django import outbox
from orbit_django.models import OutboxMessage
from orbit_django.outbox import Origin
from tests.processes import Stage, wait_for
from tests.testapp.models import Charge
from tests.worker.relaying import earn
from tests.worker.staging import dispatches
from tests.worker.test_processes import pids

QUICK = """
import sys
import django
from django.core.management import call_command
django.setup()
from orbit_django.worker import burst
burst.AWAY_SECONDS = float(sys.argv[1])
call_command("orbit_worker", *sys.argv[2:])
"""


def completed(stage: Stage, names: list[str]) -> list[str]:
    return [name for name in names if stage.view(name)["status"] == "COMPLETED"]


@pytest.mark.promise("W1", "W5")
@pytest.mark.databases
def test_a_process_takes_no_more_tasks_than_it_may(stage: Stage) -> None:
    names = [f"e-{number}" for number in range(10)]
    for name in names:
        stage.start(name, seconds=0.1)
    worker = stage.worker("--max-tasks", "3", "--concurrency", "4")

    assert worker.exit_code(30) == 0
    assert len(completed(stage, names)) == 3
    assert sum(dispatches(stage, name) for name in names) == 3, "none was taken and given back"
    assert stage.faults.calls[-1].name == "unregister"
    assert Charge.objects.count() == 3


@pytest.mark.promise("W1")
def test_a_supervised_process_that_took_its_tasks_is_replaced_at_once(stage: Stage) -> None:
    names = [f"e-{number}" for number in range(5)]
    worker = stage.worker("--max-tasks", "2", "--processes", "1", "--concurrency", "2")
    for name in names:
        stage.start(name)
    for name in names:
        assert stage.end_of(name, 40)["status"] == "COMPLETED"

    assert len(pids(worker)) == 3
    assert "retry_in" not in worker.log()
    assert [dispatches(stage, name) for name in names] == [1] * 5
    worker.signal()
    assert worker.exit_code() == 0


@pytest.mark.promise("W1", "W5")
@pytest.mark.databases
def test_a_burst_ends_when_everything_is_done_retries_included(stage: Stage) -> None:
    for number in range(6):
        stage.start(f"e-{number}", seconds=0.05)
    stage.start("retried", "Retried")
    worker = stage.worker("--burst", "--concurrency", "3")

    assert worker.exit_code(30) == 0
    assert completed(stage, [f"e-{number}" for number in range(6)]) == [f"e-{number}" for number in range(6)]
    assert stage.view("retried")["status"] == "COMPLETED"
    assert dispatches(stage, "retried") == 3
    assert stage.faults.calls[-1].name == "unregister"


@pytest.mark.promise("W1")
def test_a_burst_with_nothing_to_do_is_short(stage: Stage) -> None:
    worker = stage.idle_worker("--burst")
    began = time.monotonic()
    assert worker.exit_code(10) == 0
    assert time.monotonic() - began < 4


@pytest.mark.promise("W1", "D1")
@pytest.mark.databases
def test_a_burst_sends_what_a_dead_worker_left(stage: Stage) -> None:
    """It is held by a sender that is gone, and a blocked message is nothing to wait for."""
    server = Origin("gone", stage.runtime.url)
    left, blocked = earn("left", server), earn("blocked", Origin("gone", "http://elsewhere"))
    OutboxMessage.objects.filter(pk=blocked.pk).update(status="blocked", due_at=None)
    outbox.postpone(left, 2.0, "no answer")
    worker = stage.worker("--burst")

    assert worker.exit_code(30) == 0
    assert OutboxMessage.objects.get(pk=left.pk).status == "refused", "the runtime has never heard of it"
    assert OutboxMessage.objects.get(pk=blocked.pk).status == "blocked"


def quick(stage: Stage, *arguments: str) -> subprocess.Popen[str]:
    """Start a worker that is soon out of patience."""
    command = [sys.executable, "-c", QUICK, *arguments]
    return subprocess.Popen(command, env=stage.environment, stderr=subprocess.PIPE, text=True)


@pytest.mark.promise("W1", "D6")
def test_a_burst_without_a_runtime_gives_up(stage: Stage) -> None:
    stage.runtime.stop()
    with quick(stage, "1.5", "--task", "test.*", "--burst") as worker:
        _, log = worker.communicate(timeout=30)

    assert worker.returncode == 1
    assert "the burst ends why=nobody answers any more" in log


@pytest.mark.promise("W1", "D6")
def test_a_burst_leaves_what_finds_no_answer(stage: Stage) -> None:
    stage.faults.add("status", "complete", value=503, times=None)
    stage.start("owed")
    with quick(stage, "2", "--task", "test.*", "--burst") as worker:
        _, log = worker.communicate(timeout=40)

    assert worker.returncode == 1
    assert "the burst ends why=what is owed to the runtime finds no answer" in log
    assert OutboxMessage.objects.get().status == "pending"


@pytest.mark.promise("W1")
def test_processes_of_a_burst_are_not_replaced(stage: Stage) -> None:
    names = [f"e-{number}" for number in range(6)]
    for name in names:
        stage.start(name, seconds=0.2)
    worker = stage.worker("--burst", "--processes", "2", "--concurrency", "1")

    assert worker.exit_code(40) == 0
    assert completed(stage, names) == names
    assert len(pids(worker)) == 2


@pytest.mark.promise("W1", "W5")
def test_a_burst_that_lost_a_process_ends_with_one(stage: Stage) -> None:

    stage.start("long", "Hold", seconds=40.0)
    worker = stage.worker("--burst", "--processes", "2", "--concurrency", "1")
    wait_for(lambda: stage.notes("begin"), 30)
    os.kill(int(stage.notes("begin")[0].split()[2]), signal.SIGKILL)

    assert worker.exit_code(40) == 1
    assert len(pids(worker)) == 2

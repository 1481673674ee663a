"""Threads that handlers leave behind: in a process that is the worker's, and in one that is not."""

import io
import subprocess
import sys
import threading
import time

import pytest

from orbit_django.management.commands.orbit_worker import Command
from tests.processes import Stage

IN_ANOTHER_PROGRAM = """
import sys, threading
import django
from django.core.management import call_command, execute_from_command_line
django.setup()
if sys.argv[1] == "call":
    call_command("orbit_worker", "--task", "test.*", "--burst")
else:
    execute_from_command_line(["manage.py", "orbit_worker", "--task", "test.*", "--burst"])
threading.Event().wait(3)
print("still here")
"""


def names() -> list[str]:
    return [thread.name for thread in threading.enumerate()]


@pytest.mark.promise("W5")
def test_a_thread_that_a_handler_left_behind_does_not_hold_the_process(stage: Stage) -> None:
    worker = stage.idle_worker()
    stage.start("lingering", "Linger", seconds=60.0)
    assert stage.end_of("lingering")["status"] == "COMPLETED"
    worker.signal()

    assert worker.exit_code() == 0
    (line,) = [line for line in worker.log().splitlines() if "threads" in line]
    assert line.endswith(
        "WARNING orbit_django.worker.leaving threads that handlers left behind are given up threads=busy_0"
    )


@pytest.mark.promise("W5")
def test_a_thread_that_ends_soon_is_waited_for_and_not_spoken_of(stage: Stage) -> None:
    worker = stage.idle_worker()
    stage.start("lingering", "Linger", seconds=1.0)
    assert stage.end_of("lingering")["status"] == "COMPLETED"
    began = worker.signal()

    assert worker.exit_code() == 0
    assert time.monotonic() - began < 2, "idle threads of a pool are no reason to wait"
    assert "threads" not in worker.log()


@pytest.mark.promise("W5")
@pytest.mark.parametrize("how", ["call", "execute"])
def test_another_program_that_runs_the_command_goes_on(stage: Stage, how: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", IN_ANOTHER_PROGRAM, how],
        env=stage.environment, capture_output=True, text=True, timeout=50, check=False,
    )  # fmt: skip
    assert (ended.returncode, ended.stdout) == (0, "still here\n"), ended.stderr


@pytest.mark.django_db(transaction=True)
def test_a_test_that_calls_the_command_keeps_its_process(monkeypatch: pytest.MonkeyPatch) -> None:
    for argv in (
        ["manage.py", "orbit_worker", "--task", "test.*", "--check"],
        ["manage.py", "orbit_worker", "-c", "0"],
    ):
        monkeypatch.setattr(sys, "argv", argv)
        try:
            Command(stdout=io.StringIO()).run_from_argv(argv)
        except SystemExit as ended:
            assert ended.code == 2  # noqa: PT017
    assert "orbit-leaving" not in names()

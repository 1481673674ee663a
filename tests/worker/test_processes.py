"""Worker processes under a supervisor, as real processes."""

import contextlib
import fcntl
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from orbit_django.contracts import read
from orbit_django.embedded.server import EmbeddedRuntime
from tests.processes import ListeningFaults, Stage, WorkerProcess, wait_for
from tests.testapp.models import Charge
from tests.worker.staging import WORKFLOWS, begun, dispatches, reports, short_session


def pids(worker: WorkerProcess) -> list[int]:
    """Return the processes that a supervisor says it has started so far."""
    return [int(pid) for pid in re.findall(r"a worker process was started child=\d+ child_pid=(\d+)", worker.log())]


def is_alive(pid: int) -> bool:
    """Return whether a process works, which a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def supervisor(stage: Stage, count: int, *arguments: str) -> WorkerProcess:
    """Start a supervisor and wait until each of its processes polls."""
    worker = stage.worker("--processes", str(count), *arguments)
    wait_for(lambda: len(stage.faults.times("register")) >= count, 30)
    return worker


@pytest.mark.promise("W1", "E2")
@pytest.mark.databases
@short_session
def test_a_killed_process_is_replaced_and_its_task_done_once(stage: Stage) -> None:
    worker = supervisor(stage, 3, "--concurrency", "1")
    for number in range(3):
        stage.start(f"e-{number}", seconds=1.0)
    begun(stage, 1)
    victim = int(stage.notes("begin")[0].split()[2])
    os.kill(victim, signal.SIGKILL)

    for number in range(3):
        assert stage.end_of(f"e-{number}")["status"] == "COMPLETED"
    assert Charge.objects.count() == 3
    started = wait_for(lambda: len(pids(worker)) == 4 and pids(worker))
    assert victim in started[:3]
    assert f"child_pid={victim} exit_code=-9" in worker.log()
    wait_for(lambda: len(stage.faults.times("register")) == 4, 20)
    sent_at = worker.signal()
    assert worker.exit_code() == 0
    assert time.monotonic() - sent_at < 3
    assert len(stage.faults.times("unregister")) == 3
    assert [pid for pid in started if is_alive(pid)] == []
    assert {line.split()[2] for line in stage.notes()} <= {str(pid) for pid in started}


@pytest.mark.promise("W1", "W5")
def test_processes_end_in_order_when_their_supervisor_was_killed(stage: Stage) -> None:
    worker = supervisor(stage, 2)
    stage.start("long", seconds=1.0)
    begun(stage)
    worker.kill()

    wait_for(lambda: not any(map(is_alive, pids(worker))))
    assert stage.view("long")["status"] == "COMPLETED"
    assert dispatches(stage, "long") == 1
    assert [call.name for call in stage.faults.calls[-1:]] == ["unregister"]
    assert len(stage.faults.times("unregister")) == 2


@pytest.mark.promise("W5")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_is_passed_on_like_the_first(stage: Stage, number: int) -> None:
    worker = supervisor(stage, 2, "--concurrency", "1")
    stage.start("long", "Hold", seconds=40.0)
    begun(stage)
    worker.signal(number)
    wait_for(lambda: worker.log().count("the worker stops") == 2)
    sent_at = worker.signal(number)

    assert worker.exit_code() == 1
    assert time.monotonic() - sent_at < 3
    assert stage.notes("cancelled-by-shutdown")
    assert reports(stage) == 0
    assert len(stage.faults.times("unregister")) == 2
    assert not any(map(is_alive, pids(worker)))


@pytest.mark.promise("W5")
def test_a_signal_to_the_whole_service_is_one_request(stage: Stage) -> None:
    """An init system signals the supervisor and each of its processes; that must not look like a second signal."""
    worker = supervisor(stage, 2, "--concurrency", "1")
    stage.start("short", seconds=1.5)
    begun(stage)
    for pid in pids(worker):
        os.kill(pid, signal.SIGTERM)
    worker.signal()

    assert worker.exit_code() == 0
    assert stage.view("short")["status"] == "COMPLETED"
    assert dispatches(stage, "short") == 1


@pytest.mark.promise("W1")
def test_a_process_that_was_ended_alone_is_replaced(stage: Stage) -> None:
    worker = supervisor(stage, 2)
    os.kill(pids(worker)[0], signal.SIGTERM)
    wait_for(lambda: len(stage.faults.times("register")) == 3, 20)

    assert len(pids(worker)) == 3
    assert " ERROR " not in worker.log()
    worker.signal()
    assert worker.exit_code() == 0


@pytest.mark.promise("W1", "W8", "W9")
def test_processes_that_the_runtime_refuses_are_one_line_and_no_loop(
    child_environment: dict[str, str], tmp_path: Path
) -> None:
    runtime = EmbeddedRuntime(read(WORKFLOWS), worker_token="right", token="admin", faults=ListeningFaults())
    with runtime, closing(Stage(runtime, child_environment, tmp_path)) as stage:
        worker = stage.worker("--processes", "3", ORBIT_WORKER_TOKEN="wrk-SECRET-1")
        assert worker.exit_code(30) == 2

    (line,) = [line for line in worker.log().splitlines() if not line[:4].isdigit()]
    assert line.startswith("CommandError: the runtime refuses this worker: 401 UNAUTHENTICATED")
    assert len(pids(worker)) == 3
    assert "SECRET" not in worker.log()


@pytest.mark.promise("W1")
def test_a_process_that_dies_of_its_start_is_tried_again_later_and_later(stage: Stage, tmp_path: Path) -> None:
    flag = tmp_path / "broken"
    flag.touch()
    (tmp_path / "fragile.py").write_text(
        "import pathlib, sys\nfrom tests.settings import *\n"
        f"if '--lifeline' in ' '.join(sys.argv) and pathlib.Path({str(flag)!r}).exists(): sys.exit(7)\n"
    )
    path = os.pathsep.join([str(tmp_path), stage.environment["PYTHONPATH"]])
    worker = stage.worker("--processes", "1", DJANGO_SETTINGS_MODULE="fragile", PYTHONPATH=path)
    waits = wait_for(
        lambda: len(found := re.findall(r"exit_code=7 retry_in=([\d.]+)", worker.log())) >= 3 and found, 20
    )
    flag.unlink()

    assert [round(float(wait) / 1.1 / 0.5) for wait in waits[:3]] == [1, 2, 4]
    wait_for(lambda: stage.faults.times("poll"), 20)
    worker.signal()
    assert worker.exit_code() == 0


@pytest.mark.promise("W1", "E11")
def test_a_process_that_dies_of_its_task_is_replaced_soon_each_time(stage: Stage) -> None:
    """Others must not wait longer and longer for the handlers that kill their process."""
    for number in range(3):
        stage.start(f"poison-{number}", seconds=-1.0)
    worker = stage.worker("--processes", "1", "--concurrency", "1")
    waits = wait_for(
        lambda: len(found := re.findall(r"exit_code=-9 retry_in=([\d.]+)", worker.log())) == 3 and found, 30
    )
    stage.start("innocent")

    assert [round(float(wait) / 1.1 / 0.5) for wait in waits] == [1, 1, 1]
    assert stage.end_of("innocent")["status"] == "COMPLETED"
    worker.signal()
    assert worker.exit_code() == 0


@pytest.mark.promise("W5")
def test_a_signal_while_processes_start_ends_them_at_once(stage: Stage) -> None:
    worker = stage.worker("--processes", "2")
    wait_for(lambda: len(pids(worker)) == 2, 20)
    sent_at = worker.signal()

    assert worker.exit_code() == 0
    assert time.monotonic() - sent_at < 3
    assert "Traceback" not in worker.log()


@pytest.mark.promise("W9")
def test_a_supervisor_keeps_no_database_open_and_no_credential_on_a_command_line(stage: Stage) -> None:
    stage.environment["ORBIT_WORKER_TOKEN"] = "wrk-SECRET-1"
    worker = supervisor(stage, 2)
    opened = [str(path.readlink()) for path in Path(f"/proc/{worker.process.pid}/fd").iterdir()]
    lines = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in (worker.process.pid, *pids(worker))]

    assert [name for name in opened if "sqlite" in name] == []
    assert all(b"orbit_worker" in line and b"SECRET" not in line for line in lines)


CALLED = """
import sys
import django
from django.core.management import call_command
django.setup()
call_command("orbit_worker", processes="2", task=["test.*"], concurrency=1)
"""


@pytest.mark.promise("W1", "W5")
def test_a_program_that_calls_the_command_is_not_started_again(stage: Stage) -> None:
    """Its processes are started by Django's own entry, with the same options."""
    command = [sys.executable, "-c", CALLED]
    with subprocess.Popen(command, env=stage.environment, stderr=subprocess.PIPE, text=True) as program:
        wait_for(lambda: len(stage.faults.times("register")) == 2, 30)
        children = [path.parent for path in Path("/proc").glob("[0-9]*/stat") if parent_of(path) == program.pid]
        lines = [(child / "cmdline").read_bytes().split(b"\0") for child in children]
        program.terminate()
        _, log = program.communicate(timeout=20)

    assert program.returncode == 0, log
    assert len(lines) == 2
    for line in lines:
        assert line[line.index(b"-m") :][:-2] == [
            *(b"-m", b"django", b"orbit_worker", b"--concurrency=1", b"--task", b"test.*", b"--verbosity=1")
        ]


def parent_of(path: Path) -> int:
    try:
        return int(path.read_text().rsplit(")", 1)[1].split()[1])
    except OSError:
        return 0


LOUD = """
import logging, sys
from orbit_django.logs import LineHandler
handler = LineHandler(sys.stderr)
text = "\\n".join(["x" * 99 + sys.argv[1]] * 200)
print("ready", flush=True)
sys.stdin.read()
for _ in range(50):
    handler.handle(logging.makeLogRecord({"msg": text}))
"""


def test_processes_do_not_write_into_each_others_lines(stage: Stage) -> None:
    read_end, write_end = os.pipe()
    fcntl.fcntl(write_end, fcntl.F_SETPIPE_SZ, 4096)  # full at once, as with a reader that is slow
    gate, opener = os.pipe()
    with contextlib.ExitStack() as ends:
        loud = []
        for mark in "abc":
            command = [sys.executable, "-c", LOUD, mark]
            process = subprocess.Popen(
                command, env=stage.environment, stdin=gate, stdout=subprocess.PIPE, stderr=write_end
            )
            loud.append(ends.enter_context(process))
        assert [process.stdout.readline() for process in loud] == [b"ready\n"] * 3
        for descriptor in (write_end, gate, opener):
            os.close(descriptor)
        with os.fdopen(read_end) as file:
            lines = file.read().splitlines()

    assert len(lines) == 3 * 50 * 200
    assert set(lines) == {"x" * 99 + mark for mark in "abc"}

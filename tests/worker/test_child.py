"""A supervisor and its children, with small programs in the place of workers."""

import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator

import pytest

from orbit_django.clock import FixedClock
from orbit_django.exceptions import ConfigurationError
from orbit_django.worker import processes
from orbit_django.worker.child import Child, Program
from orbit_django.worker.processes import Supervisor
from tests.processes import wait_for

HEAD = """
import os, socket, sys, time
line = socket.socket(fileno=int(sys.argv[-1].partition("=")[2]))
def send(text): line.sendall(text.encode())
"""
WAITS = "send('report {}\\n'); line.recv(1)"
DEAF = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); send('report {}\\n'); time.sleep(60)"


def program(text: str) -> Program:
    return Program([sys.executable, "-S", "-c", HEAD + text])


@pytest.fixture
def child() -> Iterator[Child]:
    found: list[Child] = []
    yield found  # type: ignore[misc]
    for each in found:
        each.kill()
        if each.is_running:
            wait_for(lambda each=each: each.poll() is not None)


def born(found: list[Child], text: str, clock: FixedClock | None = None) -> Child:
    found.append(Child(1, program(text), clock or FixedClock()))
    found[0].start()
    return found[0]


def heard(child: Child) -> str | None:
    child.read()
    return child.state().line


def test_a_report_is_kept_with_its_time(child) -> None:
    clock = FixedClock()
    one = born(child, "send('report {\"a\": 1}\\nreport {\"a\"'); send(': 2}\\nrep'); line.recv(1)", clock)
    assert (one.state().line, one.state().restarts) == (None, 0)
    assert one.state().pid == one.pid
    clock.advance(5)
    wait_for(lambda: heard(one) == '{"a": 2}')
    assert one.state().line_at == clock.monotonic()
    assert one.state().started_at == clock.wall() - 5


def test_a_process_that_is_gone_has_no_report(child) -> None:
    one = born(child, "send('report {}\\nended {}\\n')")
    assert wait_for(lambda: [one.poll()] != [None] and "gone")
    state = one.state()
    assert (state.pid, state.line, state.line_at) == (None, None, None)
    assert one.is_ended
    assert one.has_reported
    one.start()
    assert (one.state().restarts, one.is_ended, one.has_reported) == (1, False, False)


def test_a_line_without_end_is_not_kept_whole(child) -> None:
    one = born(child, "send('report ' + 'x' * 3_000_000); send('\\nreport {}\\n'); line.recv(1)")
    wait_for(lambda: heard(one) == "{}", 20)


def test_crashes_are_followed_later_and_later_and_a_long_life_begins_anew(child) -> None:
    clock = FixedClock()
    one = born(child, "pass", clock)
    waits = [one.crash_wait() for _ in range(9)]
    clock.advance(60)
    waits.append(one.crash_wait())
    expected = [0.5, 1, 2, 4, 8, 16, 30, 30, 30, 0.5]
    assert all(low * 0.8 <= wait <= low * 1.2 for low, wait in zip(expected, waits, strict=True)), waits


@pytest.mark.promise("W1", "E11")
def test_a_process_that_was_given_a_task_did_not_die_of_its_start(child) -> None:
    one = born(child, "send('report {}\\ntask {}\\n')")
    for _ in range(2):
        assert wait_for(lambda: [one.poll()] != [None] and "gone")
        assert [one.crash_wait() < 0.7 for _ in range(3)] == [True] * 3
        one.start()
    assert one.crash_wait() > 0.7, "the next one has to be given a task as well"


def run(supervisor: Supervisor) -> tuple[threading.Thread, list[object]]:
    """Run a supervisor beside the test, which is not the main thread's to watch signals for."""
    codes: list[object] = []

    def collect() -> None:
        try:
            codes.append(supervisor.run())
        except ConfigurationError as error:
            codes.append(str(error))

    thread = threading.Thread(target=collect, daemon=True)
    thread.start()
    return thread, codes


@pytest.mark.promise("W5")
@pytest.mark.parametrize(
    ("text", "stops", "code"),
    [
        (WAITS + "; send('ended {}\\n')", 1, 0),
        (WAITS + "; sys.exit(1)", 1, 1),
        (WAITS + "; os.kill(os.getpid(), 9)", 1, 1),
        ("time.sleep(60)", 1, 0),
        (DEAF, 2, 1),
    ],
    ids=["in order", "hasty", "killed", "still starting", "deaf"],
)
def test_the_exit_code_is_that_of_the_worst(monkeypatch, text: str, stops: int, code: int) -> None:
    monkeypatch.setattr(processes, "KILL_SECONDS", 0.5)
    supervisor = Supervisor(program(text), 2)
    thread, codes = run(supervisor)
    wait_for(lambda: all(state.pid for state in supervisor.children()))
    if "report" in text:
        wait_for(lambda: all(state.line for state in supervisor.children()))
    for _ in range(stops):
        supervisor.stop()
    thread.join(20)
    assert codes == [code]


@pytest.mark.promise("W8")
@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("send('report {}\\nmistake \"no such thing\"\\n'); sys.exit(2)", "no such thing"),
        ("sys.exit(2)", "a worker process could not start; its own words are above"),
    ],
)
def test_a_process_that_cannot_work_ends_the_whole(text: str, line: str) -> None:
    thread, codes = run(Supervisor(program(f"number = 1\n{text}"), 3))
    thread.join(20)
    assert codes == [line]


@pytest.mark.promise("W1")
def test_a_handler_that_exits_with_two_is_a_crash_like_others(caplog) -> None:
    caplog.set_level(logging.INFO)
    supervisor = Supervisor(program("send('report {}\\n'); time.sleep(0.1); os._exit(2)"), 1)
    thread, codes = run(supervisor)
    wait_for(lambda: supervisor.children()[0].restarts >= 1)
    supervisor.stop()
    thread.join(20)
    (died, *_) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert died.exit_code == 2
    assert codes in ([0], [1])


def test_a_program_that_is_not_there_is_tried_again(caplog) -> None:
    supervisor = Supervisor(Program(["/nowhere/python"]), 1)
    thread, codes = run(supervisor)
    wait_for(lambda: "a worker process cannot be started" in caplog.text)
    supervisor.stop()
    thread.join(20)
    assert codes == [0]


@pytest.mark.promise("W1")
def test_a_burst_ends_with_its_last_process() -> None:
    text = "send('report {}\\nended {}\\n'); sys.exit(int(sys.argv[-1].partition('=')[2]) % 2)"
    thread, codes = run(Supervisor(program(text.replace("% 2", "* 0")), 2, is_burst=True))
    thread.join(20)
    assert codes == [0]


def test_descriptors_are_given_back() -> None:
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    thread, codes = run(Supervisor(program("send('ended {}\\n')"), 2, is_burst=True))
    thread.join(20)
    assert codes == [0]
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208


def test_a_supervisor_leaves_signals_to_others_outside_of_the_main_thread() -> None:
    before = signal.getsignal(signal.SIGTERM)
    supervisor = Supervisor(program(WAITS), 1)
    thread, _ = run(supervisor)
    wait_for(lambda: supervisor.children()[0].pid)
    assert signal.getsignal(signal.SIGTERM) is before
    supervisor.stop()
    thread.join(20)


@pytest.mark.promise("W1")
def test_a_supervisor_survives_its_own_errors(monkeypatch, caplog) -> None:
    def fail(own: object) -> None:
        monkeypatch.setattr(processes, "reap_strays", lambda own: None)
        raise RuntimeError("no")

    monkeypatch.setattr(processes, "reap_strays", fail)
    supervisor = Supervisor(program(WAITS), 1)
    thread, codes = run(supervisor)
    wait_for(lambda: supervisor.children()[0].line)
    supervisor.stop()
    thread.join(20)
    assert codes == [0]
    assert caplog.messages.count("a step of the supervisor failed") == 1


@pytest.mark.promise("W1")
@pytest.mark.parametrize("line", ["[]", "null", "7", "no json", '{"numbers": {}}', '{"other": 1}'])
def test_a_report_of_another_form_disturbs_nobody(line: str, caplog) -> None:
    text = f"send('report ' + {line!r} + '\\n'); line.recv(1)"
    supervisor = Supervisor(program(text), 1)
    thread, codes = run(supervisor)
    wait_for(lambda: supervisor.children()[0].line == line)
    supervisor.health.condition()
    supervisor.stop()
    thread.join(20)
    assert codes == [0]
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []

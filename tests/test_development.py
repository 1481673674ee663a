import io
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from orbit_django.development import Lines, Program, Together
from tests import databases
from tests.processes import wait_for

WAITS = "import signal, sys; signal.signal(signal.SIGTERM, lambda *_: sys.exit(0)); print('ready {0}', flush=True); "
ORDERLY = WAITS + "signal.pause()"
DEAF = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready', flush=True)\n"
DEAF += "while True: signal.pause()"
TWICE = """
import signal, sys
asked = []
def asked_for(*_):
    asked.append(1)
    if len(asked) == 2: sys.exit(0)
signal.signal(signal.SIGTERM, asked_for)
print("ready", flush=True)
while True: signal.pause()
"""
PARENT = "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[1]])"


def program(name: str, text: str, *arguments: str) -> Program:
    return Program(name, [sys.executable, "-S", "-c", text.replace("{0}", name), *arguments], "ready")


class Session:
    """Programs that run together in a thread, and what they said."""

    def __init__(self, *programs: Program) -> None:
        self.lines: list[tuple[str, str]] = []
        self.together = Together(programs, os.environ, lambda name, text: self.lines.append((name, text)), name="dev")
        self.codes: list[int] = []
        self._thread = threading.Thread(target=lambda: self.codes.append(self.together.run()), daemon=True)
        self._thread.start()

    def said(self, name: str) -> list[str]:
        return [text for who, text in list(self.lines) if who == name]

    def wait_until_ready(self, *names: str) -> None:
        wait_for(lambda: all(self.said(name) for name in names))

    def end(self, seconds: float = 30) -> int:
        self._thread.join(seconds)
        assert self.codes, self.lines
        return self.codes[0]

    def pid(self, index: int) -> int:
        return self.together._parts[index].process.pid

    def close(self) -> None:
        for part in self.together._parts:
            part.send(signal.SIGKILL)
        self._thread.join(5)


@pytest.fixture
def run() -> Iterator[Callable[..., Session]]:
    sessions: list[Session] = []

    def start(*programs: Program) -> Session:
        sessions.append(Session(*programs))
        return sessions[-1]

    yield start
    for session in sessions:
        session.close()


def is_alive(pid: int) -> bool:
    state = Path(f"/proc/{pid}/stat")
    try:
        return state.read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_all_run_until_they_are_asked_to_end_and_the_first_ends_last(run) -> None:
    last = "import time; " + ORDERLY.replace("sys.exit(0)", "(print('gone', flush=True), sys.exit(0))")
    session = run(program("first", last), program("second", last))
    session.wait_until_ready("first", "second")
    session.together.stop()
    assert session.end() == 0
    assert [who for who, text in session.lines if text == "gone"] == ["second", "first"]
    assert session.said("dev") == ["stopping; tasks that run may finish, once more stops at once"]


def test_the_others_start_when_the_first_is_ready(run) -> None:
    slow = "import time, sys; sys.stdin.read(); print('starting', flush=True); " + ORDERLY
    session = run(program("first", slow), program("second", ORDERLY))
    session.wait_until_ready("second")
    assert session.lines[:3] == [("first", "starting"), ("first", "ready first"), ("second", "ready second")]
    session.together.stop()
    assert session.end() == 0


@pytest.mark.parametrize("dying", ["first", "second"])
def test_one_that_ends_by_itself_ends_the_rest(run, dying: str) -> None:
    session = run(program("first", ORDERLY), program("second", ORDERLY))
    session.wait_until_ready("first", "second")
    os.kill(session.pid(["first", "second"].index(dying)), signal.SIGKILL)
    assert session.end() == 1
    assert session.said("dev") == [f"{dying} ended with code -9; the rest is ended as well"]


def test_nothing_else_is_started_when_the_first_cannot(run) -> None:
    session = run(program("first", "import sys; print('CommandError: taken'); sys.exit(2)"), program("second", ORDERLY))
    assert session.end() == 1
    assert session.lines == [
        ("first", "CommandError: taken"),
        ("dev", "first ended with code 2; the rest is ended as well"),
    ]


def test_a_second_request_is_passed_on(run) -> None:
    session = run(program("first", ORDERLY), program("second", TWICE))
    session.wait_until_ready("first", "second")
    session.together.stop()
    wait_for(lambda: session.together._passed_on == 1)
    assert is_alive(session.pid(0)), "the first waits for the others"
    session.together.stop()
    assert session.end() == 0


def test_what_ignores_every_request_is_killed(run, monkeypatch) -> None:
    monkeypatch.setattr("orbit_django.development.KILL_SECONDS", 0.2)
    session = run(program("first", DEAF), program("second", DEAF))
    session.wait_until_ready("first", "second")
    session.together.stop()
    session.together.stop()
    assert session.end() == 0
    assert not any(is_alive(part.process.pid) for part in session.together._parts)


def test_what_a_dead_process_left_behind_goes_with_it(run) -> None:
    session = run(
        program("first", ORDERLY), program("second", PARENT, "import os; print(os.getpid(), flush=True); " + ORDERLY)
    )
    session.wait_until_ready("first", "second")
    inner = int(session.said("second")[0])
    os.kill(session.pid(1), signal.SIGKILL)
    assert session.end() == 1
    wait_for(lambda: not is_alive(inner))


ALONE = """
import os, sys
from orbit_django.development import Program, Together
part = lambda name: Program(name, [sys.executable, "-S", "-c", sys.argv[1]], "ready")
Together([part("first"), part("second")], os.environ, lambda name, text: print(text, flush=True), name="dev").run()
"""


def test_nothing_is_left_when_the_whole_is_killed() -> None:
    command = [sys.executable, "-c", ALONE, ORDERLY.replace("'ready {0}'", "__import__('os').getpid(), 'ready'")]
    surroundings = os.environ | {"PYTHONPATH": str(databases.ROOT)}
    with subprocess.Popen(command, env=surroundings, stdout=subprocess.PIPE, text=True) as whole:
        assert whole.stdout is not None
        pids = [int(whole.stdout.readline().split()[0]) for _ in range(2)]
        children = wait_for(lambda: len(found := children_of(whole.pid)) == 3 and found)  # the guard is there
        whole.kill()
    assert set(pids) < set(children)
    wait_for(lambda: not any(is_alive(pid) for pid in children))


def children_of(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_lines_stand_behind_the_name_of_who_says_them() -> None:
    stream = io.StringIO()
    lines = Lines(stream, ["web", "worker"], {"web": lambda text: f"<{text}>"})
    lines.tell("web", "one")
    lines.tell("worker", "two")
    assert stream.getvalue() == "<web    |> one\nworker | two\n"
    stream.close()
    lines.tell("web", "to nobody")

"""Several processes as one: started in order, their output told apart, and all of them ended with the first that ends.

Each is the first of a process group of its own, so that a Ctrl-C at the terminal reaches this process alone, which ends
them in order. Should it be killed, a guard that waits for its end does so.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TextIO

from orbit_django.clock import Clock, SystemClock
from orbit_django.worker.stops import watching_signals

LOOK_SECONDS = 0.1
READY_SECONDS = 30.0  # how long the first part may take until the others are started
KILL_SECONDS = 12.0  # what is left then, after the end at once was asked for, is killed: more than a supervisor takes
FINISH_SECONDS = 1.0  # for the last lines of what has ended
GUARD = """
import contextlib, os, signal, sys
for name in ("SIGINT", "SIGTERM", "SIGHUP"):
    signal.signal(getattr(signal, name), signal.SIG_IGN)
sys.stdin.buffer.read()
for group in sys.argv[1:]:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(int(group), signal.SIGTERM)
"""


@dataclass(frozen=True, slots=True)
class Program:
    """What is started, and by which words in its output it is known to be ready; "" when nobody waits for that."""

    name: str
    command: Sequence[str]
    ready: str = ""


class Part:
    """One process, and the thread that passes its lines on."""

    def __init__(self, program: Program, environment: Mapping[str, str], tell: Callable[[str, str], object]) -> None:
        self.name = program.name
        self._ready = program.ready
        self._tell = tell
        self._is_finished = False
        self.is_ready = threading.Event()
        self.process = subprocess.Popen(
            program.command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # a Ctrl-C is for the process that started it
        )
        self._reader = threading.Thread(target=self._read, name=f"orbit-{self.name}", daemon=True)
        self._reader.start()

    @property
    def is_running(self) -> bool:
        """Whether the process is there."""
        if self.process.returncode is not None or not hasattr(os, "waitid"):
            return self.process.poll() is None
        # Left unread: until it is, nobody else is given the number of the process, by which its group is called.
        return os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None

    def send(self, number: int) -> None:
        """Send a signal to the process and to those of its group."""
        if not self._is_finished:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, number)

    def finish(self) -> int:
        """End what is left of the process and of its group, pass on the last lines, and return its exit code."""
        self.send(signal.SIGKILL)
        self._is_finished = True
        self._reader.join(FINISH_SECONDS)
        return self.process.wait()

    def _read(self) -> None:
        assert self.process.stdout is not None  # noqa: S101  (it was asked for)
        with self.process.stdout as stream:
            for line in stream:
                text = line.decode(errors="replace").rstrip("\r\n")
                self._tell(self.name, text)
                if self._ready and self._ready in text:
                    self.is_ready.set()


class Together:
    """Runs programs as one. The first is the foundation of the others: it starts first and ends last."""

    def __init__(
        self,
        programs: Sequence[Program],
        environment: Mapping[str, str],
        tell: Callable[[str, str], object],
        *,
        name: str,
        clock: Clock | None = None,
    ) -> None:
        self._programs = programs
        self._environment = environment
        self._tell = tell
        self._name = name  # under which this one speaks itself
        self._clock = clock or SystemClock()
        self._parts: list[Part] = []
        self._requests = 0
        self._passed_on = 0
        self._told_last = 0  # how often the first part was told to end
        self._kill_at: float | None = None
        self._code = 0

    def stop(self) -> None:
        """Ask for an orderly end; a second time, for an end at once."""
        self._requests += 1  # nothing else: a handler of a signal must not touch a lock

    def run(self) -> int:
        """Return once every process has ended: 0 when that was asked for, 1 when one of them ended by itself."""
        guard: subprocess.Popen[bytes] | None = None
        with watching_signals(self.stop):
            try:
                self._start()
                guard = self._guard()
                while not self.step():
                    threading.Event().wait(LOOK_SECONDS)
            finally:
                for part in self._parts:
                    part.finish()
                if guard is not None:
                    guard.kill()
                    guard.communicate()
        return self._code

    def step(self) -> bool:
        """Look once at requests to end, and at who has ended by itself; return whether all have ended."""
        gone = next((part for part in self._parts if not part.is_running), None)
        if gone is not None and not self._requests:
            self._tell(self._name, f"{gone.name} ended with code {gone.finish()}; the rest is ended as well")
            self._code = 1
            self.stop()
        while self._passed_on < self._requests:
            self._passed_on += 1
            self._pass_on()
        if self._passed_on:
            self._end_first()
        return not any(part.is_running for part in self._parts)

    def _start(self) -> None:
        first, *rest = self._programs
        self._add(first)
        ends_at = self._clock.monotonic() + READY_SECONDS
        (part,) = self._parts
        while part.is_running and not self._requests and self._clock.monotonic() < ends_at:
            if not first.ready or part.is_ready.wait(LOOK_SECONDS):
                break
        if part.is_running and not self._requests:
            for program in rest:
                self._add(program)

    def _add(self, program: Program) -> None:
        self._parts.append(Part(program, self._environment, self._tell))

    def _guard(self) -> subprocess.Popen[bytes]:
        groups = [str(part.process.pid) for part in self._parts]
        command = [sys.executable, "-I", "-S", "-c", GUARD, *groups]
        return subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)

    def _pass_on(self) -> None:
        if self._passed_on == 1:
            if not self._code:
                self._tell(self._name, "stopping; tasks that run may finish, once more stops at once")
        elif self._kill_at is None:
            self._kill_at = self._clock.monotonic() + KILL_SECONDS
        for part in self._parts[1:]:
            part.send(signal.SIGTERM)

    def _end_first(self) -> None:
        """End the first part once the others are gone, and by force whatever is there when time is up."""
        if not any(part.is_running for part in self._parts[1:]) and self._told_last < self._passed_on:
            self._told_last = self._passed_on
            for part in self._parts[1:]:
                part.finish()  # their last lines stand before those of the first
            self._parts[0].send(signal.SIGTERM)
        if self._kill_at is not None and self._clock.monotonic() >= self._kill_at:
            for part in self._parts:
                part.send(signal.SIGKILL)


class Lines:
    """Writes whole lines from many threads, each behind the name of who says it."""

    def __init__(self, stream: TextIO, names: Sequence[str], paint: Mapping[str, Callable[[str], str]]) -> None:
        self._stream = stream
        self._width = max(map(len, names))
        self._paint = paint
        self._lock = threading.Lock()

    def tell(self, name: str, text: str) -> None:
        """Write one line; a reader that is gone is no reason to fail."""
        head = self._paint.get(name, str)(f"{name:<{self._width}} |")
        with self._lock, contextlib.suppress(BrokenPipeError, ValueError):
            self._stream.write(f"{head} {text}\n")
            self._stream.flush()

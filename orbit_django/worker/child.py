"""One worker process as its supervisor sees it: started, listened to, ordered to end, started again."""

from __future__ import annotations

import contextlib
import json
import logging
import socket
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from orbit_django.clock import Clock
from orbit_django.logs import SteadyLogger
from orbit_django.worker.runner import delay_after

logger = SteadyLogger(logging.getLogger(__name__))

LONG_LIFE_SECONDS = 60.0  # who lived that long did not die of its start
FIRST_WAIT_SECONDS = 0.5
TOP_WAIT_SECONDS = 30.0
MAX_LINE_BYTES = 1_000_000
READ_BYTES = 65_536


@dataclass(frozen=True, slots=True)
class Program:
    """What a worker process is started with."""

    command: Sequence[str]
    environment: Mapping[str, str] | None = None  # None: that of the supervisor


@dataclass(frozen=True, slots=True)
class ChildState:
    """What a supervisor knows of one of its processes."""

    number: int  # from 1
    pid: int | None  # None while it is not running
    started_at: float  # seconds since the epoch, of the process that runs or ran last
    restarts: int
    line: str | None  # its last report, a JSON object; None before the first, and while it is not running
    line_at: float | None  # when that came, in monotonic seconds


class Child:
    """A place for one process after another."""

    def __init__(
        self, number: int, program: Program, clock: Clock, farewell: Callable[[ChildState], object] = lambda _: None
    ) -> None:
        self.number = number
        self.starts_at: float | None = clock.monotonic()  # when it is due to be started; None while it runs
        self.mistake: str | None = None  # why the last process said it cannot work
        self.is_ended = False  # whether the last process said that it ends in order
        self.has_reported = False
        self._was_given_task = False
        self.files: frozenset[Path] = frozenset()  # of modules that any of its processes has loaded
        self._program = program
        self._clock = clock
        self._farewell = farewell  # told the last state of each process that has ended
        self.pid: int | None = None  # of the process that runs or ran last
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: socket.socket | None = None
        self._pending = b""
        self._crashes = 0
        self._began = 0.0  # monotonic
        self._starts = 0
        self._state = ChildState(number, None, 0.0, 0, None, None)

    @property
    def channel(self) -> socket.socket | None:
        """Return the supervisor's end of the socket while it brings anything."""
        return self._channel

    @property
    def is_running(self) -> bool:
        """Return whether a process is there."""
        return self._process is not None

    def is_due(self) -> bool:
        """Return whether it is time to start a process."""
        return self.starts_at is not None and self.starts_at <= self._clock.monotonic()

    def state(self) -> ChildState:
        """Return what is known now; from any thread."""
        return self._state

    def start(self) -> None:
        """Start a process; raise OSError when the system has no room for one."""
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        self._began = self._clock.monotonic()
        with theirs:
            command = [*self._program.command, f"--lifeline={theirs.fileno()}"]
            try:
                self._process = subprocess.Popen(
                    command,
                    env=self._program.environment,
                    stdin=subprocess.DEVNULL,
                    pass_fds=[theirs.fileno()],
                    start_new_session=True,  # a Ctrl-C is for the supervisor, which passes it on
                )
            except OSError:
                ours.close()
                raise
        self._channel, self._pending = ours, b""
        self.starts_at, self.mistake, self.is_ended, self.has_reported = None, None, False, False
        self._was_given_task = False
        self._starts += 1
        self.pid = self._process.pid
        self._state = ChildState(self.number, self.pid, self._clock.wall(), self._starts - 1, None, None)

    def read(self) -> None:
        """Take in what the process has sent; a closed channel is closed here as well."""
        if self._channel is None:
            return
        with contextlib.suppress(BlockingIOError):
            while True:
                try:
                    data = self._channel.recv(READ_BYTES)
                except ConnectionError:
                    data = b""
                if not data:
                    self._close()
                    break
                self._take(data)

    def poll(self) -> int | None:
        """Return the exit code of a process that has ended since it was asked last, negative for a signal."""
        if self._process is None or (code := self._process.poll()) is None:
            return None
        self.read()
        self._close()
        self._process = None
        last, self._state = self._state, replace(self._state, pid=None, line=None, line_at=None)
        try:
            self._farewell(last)
        except Exception:  # newer files may have given it another form, and the end of the process counts more
            logger.exception("the last report of a worker process could not be read", extra={"child": self.number})
        return code

    def order(self) -> None:
        """Ask the process to end; a second time, at once."""
        if self._channel is not None:
            with contextlib.suppress(OSError):
                self._channel.send(b"!")
        if self._process is not None and not self.has_reported:
            self._process.terminate()  # it is still starting, listens to nobody and holds nothing

    def kill(self) -> None:
        """End the process whatever it does."""
        if self._process is not None:
            self._process.kill()

    def restart_in(self, seconds: float) -> None:
        """Have another process started after that long."""
        self.starts_at = self._clock.monotonic() + seconds

    def crash_wait(self) -> float:
        """Return the seconds to wait after a crash: more, the more often processes died of their start.

        One that was given a task did not, however soon it died: what its task does is limited by the runtime and the
        ledger, and the tasks of others must not wait for it.
        """
        is_start = not self._was_given_task and self._clock.monotonic() - self._began < LONG_LIFE_SECONDS
        self._crashes = self._crashes + 1 if is_start else 1
        return delay_after(self._crashes, FIRST_WAIT_SECONDS, TOP_WAIT_SECONDS)

    def _take(self, data: bytes) -> None:
        *lines, self._pending = (self._pending + data).split(b"\n")
        self._pending = self._pending[:MAX_LINE_BYTES]
        for line in lines:
            word, _, text = line.decode(errors="replace").partition(" ")
            if word == "report":
                self.has_reported = True
                self._state = replace(self._state, line=text, line_at=self._clock.monotonic())
            elif word == "mistake":
                self.mistake = str(json.loads(text))
            elif word == "files":
                self.files |= {Path(name) for name in json.loads(text)}
            elif word == "task":
                self._was_given_task = True
            elif word == "ended":
                self.is_ended = True

    def _close(self) -> None:
        if self._channel is not None:
            self._channel.close()
            self._channel = None

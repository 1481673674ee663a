"""The supervisor: runs several worker processes, starts a crashed one again, and ends them all in order.

It runs no handler, keeps no connection to a database and starts its processes afresh, never by fork. What they are
told goes through a socket that each has to it, so that they notice when it is gone.
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import signal
import threading
from collections.abc import Collection

from orbit_django.clock import Clock, SystemClock
from orbit_django.exceptions import ConfigurationError
from orbit_django.logs import SteadyLogger
from orbit_django.worker.child import Child, ChildState, Program
from orbit_django.worker.probes.whole import Whole
from orbit_django.worker.stops import watching_signals

logger = SteadyLogger(logging.getLogger(__name__))

LOOK_SECONDS = 0.1
KILL_SECONDS = 10.0  # what a process gets after it was told to end at once
MISTAKE = 2


class Supervisor:
    """Keeps ``count`` processes of a program running; ``run`` returns the exit code of the whole.

    With ``is_burst`` a process that has ended is not replaced, and the whole ends with the last of them.
    """

    def __init__(self, program: Program, count: int, *, is_burst: bool = False, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self.health = Whole(self.children, self._clock, lambda: self.is_stopping)
        self._children = [Child(n, program, self._clock, self.health.farewell) for n in range(1, count + 1)]
        self._is_burst = is_burst
        self._requests = 0  # how often the end was asked for
        self._passed_on = 0
        self._kill_at: float | None = None
        self._code = 0
        self._mistake: str | None = None

    def run(self) -> int:
        """Supervise until every process has ended; 0 when all did in order, 1 when one was hasty or died.

        Raises ConfigurationError when a process said that it cannot work.
        """
        logger.info("the supervisor started", extra={"processes": len(self._children), "pid": os.getpid()})
        with watching_signals(self.stop):
            while self._is_needed():
                self._survive()
        if self._mistake is not None:
            raise ConfigurationError(self._mistake)
        logger.info("the supervisor ended", extra={"exit_code": self._code})
        return self._code

    def stop(self) -> None:
        """Ask for an orderly end; a second time, for a hasty one."""
        self._requests += 1  # nothing else: a handler of a signal must not touch a lock

    def children(self) -> list[ChildState]:
        """Return what is known of each process; from any thread."""
        return [child.state() for child in self._children]

    def _survive(self) -> None:
        try:
            self.step()
        except Exception:
            logger.exception("a step of the supervisor failed")
            threading.Event().wait(LOOK_SECONDS)

    def step(self) -> None:
        """Look once: at requests to end, at what was reported, at who has ended, at who is due to be started."""
        self._pass_on()
        for child in self._children:
            if not self.is_stopping and child.is_due():
                self._start(child)
        self._listen()
        for child in self._children:
            if (code := child.poll()) is not None:
                self._ended(child, code)
        reap_strays({child.pid for child in self._children if child.is_running})

    @property
    def is_stopping(self) -> bool:
        """Return whether no process is started any more."""
        return self._passed_on > 0

    @property
    def is_hasty(self) -> bool:
        """Return whether the end must come at once."""
        return self._passed_on > 1

    def _is_needed(self) -> bool:
        is_waiting = not self.is_stopping and any(child.starts_at is not None for child in self._children)
        return is_waiting or any(child.is_running for child in self._children)

    def _start(self, child: Child) -> None:
        try:
            child.start()
        except OSError as error:
            logger.error("a worker process cannot be started", extra={"child": child.number, "error": str(error)})
            child.restart_in(child.crash_wait())
        else:
            logger.info("a worker process was started", extra=_about(child))

    def _listen(self) -> None:
        """Wait a moment for reports and ends of processes, which close their sockets."""
        channels = {child.channel: child for child in self._children if child.channel is not None}
        for channel in select.select(list(channels), [], [], LOOK_SECONDS)[0]:
            channels[channel].read()

    def _pass_on(self) -> None:
        while self._passed_on < max(self._requests, int(self._mistake is not None)):
            self._passed_on += 1
            logger.info("the supervisor tells its processes to end", extra={"times": self._passed_on})
            for child in self._children:
                child.order()
            if self.is_hasty and self._kill_at is None:
                self._kill_at = self._clock.monotonic() + KILL_SECONDS
        if self._kill_at is not None and self._clock.monotonic() >= self._kill_at:
            for child in self._children:
                child.kill()

    def _ended(self, child: Child, code: int) -> None:
        """Decide what follows the end of a process."""
        if child.mistake is None and code == MISTAKE and not child.has_reported:
            child.mistake = "a worker process could not start; its own words are above"
        if child.mistake is not None:
            self._mistake = self._mistake or child.mistake
        elif self.is_stopping or self._is_burst:
            is_unstarted = code == -signal.SIGTERM and not child.has_reported
            self._code = max(self._code, int(code != 0 and not is_unstarted))
            logger.info("a worker process ended", extra=_about(child, exit_code=code))
        elif child.is_ended and code == 0:
            logger.info("a worker process ended and is replaced", extra=_about(child, exit_code=code))
            child.restart_in(0)
        else:
            wait = child.crash_wait()
            about = _about(child, exit_code=code, retry_in=round(wait, 1))
            logger.error("a worker process died; another one is started", extra=about)
            child.restart_in(wait)


def reap_strays(own: Collection[int | None]) -> None:
    """Take in the ends of processes that others left behind, which only the first process of a system is handed."""
    if os.getpid() != 1:
        return
    with contextlib.suppress(ChildProcessError):  # there is nobody at all
        while ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            if ended.si_pid in own:
                return  # the next look at it comes first
            os.waitpid(ended.si_pid, 0)


def _about(child: Child, **more: object) -> dict[str, object]:
    return {"child": child.number, "child_pid": child.pid, **more}

"""Loops and their runner: a loop is a class with a ``step``; a thread repeats it until it is told to stop."""

from __future__ import annotations

import logging
import random
import threading
from typing import Protocol

from django.db import connections

from orbit_django.clock import Clock, SystemClock
from orbit_django.logs import SteadyLogger

logger = SteadyLogger(logging.getLogger(__name__))


class StoppedError(Exception):
    """The worker stops: the loop that asked has nothing more to do."""


class Loop(Protocol):
    """Something that is repeated."""

    name: str

    def step(self) -> float:
        """Do one round; return the seconds to wait before the next."""
        ...


class Backoff:
    """Growing waits: 200 ms doubling to 5 s, with jitter (O188)."""

    def __init__(self, first: float = 0.2, top: float = 5.0) -> None:
        self._first = first
        self._top = top
        self._count = 0

    def next(self) -> float:
        """Return the wait after one more failure, in seconds."""
        wait = delay_after(self._count + 1, self._first, self._top)
        self._count += 1
        return wait

    def reset(self) -> None:
        """Begin anew after a success."""
        self._count = 0


def delay_after(failures: int, first: float = 0.2, top: float = 5.0) -> float:
    """Return the wait after so many failures, in seconds: doubling, a little longer by chance, never above ``top``."""
    wait = first * 2 ** min(failures - 1, 30) * random.uniform(1.0, 1.2)  # noqa: S311  (no secret)
    return float(min(wait, top * random.uniform(0.9, 1.0)))  # noqa: S311


class NudgedLoop:
    """A loop that begins its next round at once when it is nudged."""

    def __init__(self, loop: Loop, nudge: threading.Event) -> None:
        self.name = loop.name
        self._loop = loop
        self._nudge = nudge

    def step(self) -> float:
        """Do one round, then wait until the next is due, or a nudge."""
        self._nudge.clear()
        self._nudge.wait(self._loop.step())
        return 0.0


class LoopThread(threading.Thread):
    """A thread that repeats a loop; only it waits, and always on the stop event."""

    def __init__(self, loop: Loop, stop: threading.Event, clock: Clock | None = None) -> None:
        super().__init__(name=f"orbit-{loop.name}", daemon=True)
        self.loop = loop
        self._stop_event = stop
        self._clock = clock or SystemClock()
        self.due_at = self._clock.monotonic()  # when the loop was, or is, to begin its next round

    def gets_on(self, seconds: float = 0.0) -> None:
        """Note that the loop is where it should be, and that its next round is due after so long."""
        self.due_at = self._clock.monotonic() + seconds

    def run(self) -> None:
        """Repeat until stopped; an error of one step never ends the loop."""
        trouble = Backoff()
        try:
            while not self._stop_event.is_set():
                self.gets_on()
                try:
                    wait = self.loop.step()
                    trouble.reset()
                except StoppedError:
                    return
                except BaseException:
                    logger.exception("a step of a loop failed", extra={"loop": self.loop.name})
                    wait = trouble.next()
                if wait > 0:
                    self.gets_on(wait)
                    self._stop_event.wait(wait)
        finally:
            connections.close_all()


def get_on() -> None:
    """Note for the loop of this thread that it gets on although its step has not ended: it waits for the runtime."""
    thread = threading.current_thread()
    if isinstance(thread, LoopThread):
        thread.gets_on()

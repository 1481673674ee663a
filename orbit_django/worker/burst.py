"""Working until nothing is left: decides when that is, or that nobody answers any more."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from django.db import DatabaseError, InterfaceError

from orbit_django.clock import Clock
from orbit_django.logs import SteadyLogger
from orbit_django.worker import housekeeping
from orbit_django.worker.held import Held
from orbit_django.worker.loop import PollLoop

logger = SteadyLogger(logging.getLogger(__name__))

WAIT_MS = 500  # how long a poll may take
AWAY_SECONDS = 30.0  # without an answer to a poll, or with results that find none
LOOK_SECONDS = 0.1


class Burst:
    """The loop that looks for the end; its step is one look.

    It has come when nothing is held, and since a moment at which nothing was owed every loop has asked for work and
    was given none, and still nothing is owed. Both looks are needed: what is sent in between may lead to new work.
    """

    name = "burst"

    def __init__(self, loops: Sequence[PollLoop], held: Held, is_owed: Callable[[], bool], clock: Clock) -> None:
        self.code: int | None = None  # the exit code, once it is known
        self._loops = loops
        self._held = held
        self._is_owed = is_owed
        self._clock = clock
        self._left = 0  # deliveries that had been let go of at the last look
        self._mark = self._heard_at = clock.monotonic()
        self._was_clear = False  # whether nothing was owed at the mark
        self._owed_since: float | None = None

    def step(self) -> float:
        """Look once; return the seconds until the next look."""
        now = self._clock.monotonic()
        if (left := self._held.left) != self._left:  # work was done, and may have led to more
            self._left, self._mark, self._heard_at, self._was_clear, self._owed_since = left, now, now, False, None
        if self._is_away(now):
            self._end(1, "nobody answers any more")
        elif not len(self._held) and all(loop.found_nothing_since(self._mark) for loop in self._loops):
            self._look(now)
        return LOOK_SECONDS

    def _is_away(self, now: float) -> bool:
        heard_at = max(self._heard_at, *(loop.answered_at for loop in self._loops))
        return now - heard_at >= AWAY_SECONDS and len(self._held) < len(self._loops)

    def _look(self, now: float) -> None:
        is_owed = self._ask()
        if not is_owed and self._was_clear:
            self._end(0, "nothing is left to do")
        self._was_clear, self._mark = not is_owed, now
        self._owed_since = (now if self._owed_since is None else self._owed_since) if is_owed else None
        if self._owed_since is not None and now - self._owed_since >= AWAY_SECONDS:
            self._end(1, "what is owed to the runtime finds no answer")

    def _ask(self) -> bool:
        housekeeping.before_task()
        try:
            return self._is_owed()
        except (DatabaseError, InterfaceError):
            return True  # the relay finds out whether the database is away

    def _end(self, code: int, why: str) -> None:
        if self.code is None:
            self.code = code
            logger.log(logging.ERROR if code else logging.INFO, "the burst ends", extra={"why": why})

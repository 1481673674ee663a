"""Time as a parameter: whoever needs the time is given a clock, so that tests can stop it.

Wall time is for people and for deadlines that another machine named; everything that measures a span uses
monotonic time, which no clock step can disturb.
"""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """What the rooms ask for the time."""

    def wall(self) -> float:
        """Return the seconds since the Unix epoch."""
        ...

    def monotonic(self) -> float:
        """Return seconds that only ever grow; their zero means nothing."""
        ...


class SystemClock:
    """The clock of the machine."""

    def wall(self) -> float:
        """Return the seconds since the Unix epoch."""
        return time.time()

    def monotonic(self) -> float:
        """Return the machine's monotonic seconds."""
        return time.monotonic()


class FixedClock:
    """A clock for tests that moves only when it is told to."""

    def __init__(self, wall: float = 1_700_000_000.0, monotonic: float = 1_000.0) -> None:
        self.now = wall
        self.ticks = monotonic

    def wall(self) -> float:
        """Return the wall time that was set."""
        return self.now

    def monotonic(self) -> float:
        """Return the monotonic time that was set."""
        return self.ticks

    def advance(self, seconds: float) -> None:
        """Move both times forward."""
        self.now += seconds
        self.ticks += seconds

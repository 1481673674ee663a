"""A clock that can be moved forward while it runs."""

from __future__ import annotations

from orbit_django.clock import Clock, SystemClock


class MovableClock:
    """The time of another clock, and what was added to it."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._added = 0.0

    def wall(self) -> float:
        """Return the seconds since the Unix epoch."""
        return self._clock.wall() + self._added

    def monotonic(self) -> float:
        """Return seconds that only ever grow."""
        return self._clock.monotonic() + self._added

    def advance(self, seconds: float) -> None:
        """Move the clock forward."""
        self._added += seconds

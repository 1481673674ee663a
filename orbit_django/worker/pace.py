"""How fast results are sent: as fast as they come while the runtime answers, a few a second while it does not.

Each message backs off on its own, so that none holds up another; a thousand of them would still be a flood.
"""

from __future__ import annotations

import threading
from enum import Enum

from orbit_django.clock import Clock

PATIENCE = 8  # tries in a row without a word about a result
TROUBLED_SECONDS = 0.25  # between two tries of a lane from then on


class Lane(Enum):
    """Who sends: each has a rate of its own, so that old messages do not keep a new one from its first try."""

    FIRST = "first"  # a loop, what it has just committed
    AGAIN = "again"  # the senders, what was taken from the outbox


class Pace:
    """Whether the next message may be sent now; safe from many threads."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._failures = 0
        self._next_at = dict.fromkeys(Lane, 0.0)

    @property
    def is_troubled(self) -> bool:
        """Return whether the last tries brought nothing."""
        return self._failures >= PATIENCE

    def answered(self) -> None:
        """Note that the runtime said something about a result: full speed."""
        self._failures = 0

    def unanswered(self) -> None:
        """Note a try that brought nothing."""
        with self._lock:
            self._failures += 1

    def is_open(self, lane: Lane) -> bool:
        """Return whether a message of this lane may be sent now."""
        return not self.is_troubled or self._clock.monotonic() >= self._next_at[lane]

    def take(self, lane: Lane) -> bool:
        """Use the turn of a lane; return False when it has none now."""
        with self._lock:
            if not self.is_open(lane):
                return False
            self._next_at[lane] = self._clock.monotonic() + TROUBLED_SECONDS
            return True

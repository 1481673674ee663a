"""Things that are due at a moment of monotonic time; nobody waits here."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterator

Action = Callable[[], None]


class Timers:
    """Actions by the time at which they are due.

    A timer is never taken back: its action sees whether it still matters.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Action]] = []
        self._count = itertools.count()

    def at(self, due: float, action: Action) -> None:
        """Have ``action`` called once ``due`` (monotonic seconds) has come."""
        heapq.heappush(self._heap, (due, next(self._count), action))

    def next_due(self) -> float | None:
        """Return when the next action is due, None when there is none."""
        return self._heap[0][0] if self._heap else None

    def take_due(self, now: float) -> Iterator[Action]:
        """Take out and yield the actions that are due, earliest first."""
        while self._heap and self._heap[0][0] <= now:
            yield heapq.heappop(self._heap)[2]

"""How many tasks a process may still receive: what is asked for is reserved first, since several polls are open."""

from __future__ import annotations

import threading


class Allowance:
    """A number of tasks, or no limit at all; safe from every thread."""

    def __init__(self, limit: int | None = None) -> None:
        self._limit = limit
        self._changed = threading.Condition()
        self._reserved = 0  # polls that may bring a task, and tasks that were brought
        self._received = 0

    @property
    def is_spent(self) -> bool:
        """Return whether every task that was allowed has been received."""
        return self._limit is not None and self._received >= self._limit

    def reserve(self, seconds: float) -> bool:
        """Reserve a task before a poll, waiting that long for one that others give back; return whether there is one.

        What was reserved is to be given back after a poll that brought nothing.
        """
        if self._limit is None:
            return True
        with self._changed:
            if not self._changed.wait_for(self._is_free, seconds):
                return False
            self._reserved += 1
            return True

    def give_back(self) -> None:
        """Give back what was reserved: the poll brought nothing."""
        with self._changed:
            self._reserved -= 1
            self._changed.notify()

    def received(self) -> None:
        """Note that a task came for what was reserved."""
        with self._changed:
            self._received += 1

    def _is_free(self) -> bool:
        return self._limit is None or self._reserved < self._limit

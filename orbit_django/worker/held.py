"""The deliveries that this process holds: from their receipt until their report was sent or left to the relay."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable

from orbit_django.context import CancelReason, TaskContext


class Held:
    """Contexts by token, and the news for them; safe from every thread."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._contexts: dict[str, TaskContext] = {}
        self._ended: set[str] = set()
        self._cancelled_since: dict[str, float] = {}
        self._is_closed = False
        self.left = 0  # deliveries that were let go of so far

    def __len__(self) -> int:
        return len(self._contexts)

    def running(self) -> int:
        """Return how many deliveries have no report yet."""
        with self._changed:
            return len(self._contexts) - len(self._ended)

    def add(self, context: TaskContext) -> bool:
        """Begin to hold a delivery; return False when nothing is taken any more."""
        with self._changed:
            if self._is_closed:
                return False
            self._contexts[context.token] = context
            return True

    def remove(self, context: TaskContext) -> bool:
        """Let go of a delivery; return whether there is a report of it."""
        with self._changed:
            self._contexts.pop(context.token, None)
            is_reported = context.token in self._ended
            self._ended.discard(context.token)
            self.left += 1
            self._changed.notify_all()
            return is_reported

    def reporting(self, context: TaskContext) -> None:
        """Note that a delivery's handler has ended: it is only held until its report was tried."""
        with self._changed:
            self._ended.add(context.token)
            self._changed.notify_all()

    def cancel(self, tokens: Iterable[str]) -> None:
        """Tell the handlers of these deliveries to stop; unknown tokens are nobody's here (O082)."""
        with self._changed:
            found = [self._contexts[token] for token in tokens if token in self._contexts]
        for context in found:
            context.cancelled.cancel(CancelReason.RUNTIME)

    def cancel_all(self) -> None:
        """Tell every handler to stop because the process must end."""
        with self._changed:
            found = list(self._contexts.values())
        for context in found:
            context.cancelled.cancel(CancelReason.SHUTDOWN)

    def deaf(self, now: float, seconds: float) -> list[TaskContext]:
        """Return, each once, the deliveries whose handlers go on so long after they were seen to be cancelled."""
        with self._changed:
            running = {token: each for token, each in self._contexts.items() if token not in self._ended}
            cancelled = {token: each for token, each in running.items() if each.is_cancelled}
            since = {token: self._cancelled_since.get(token, now) for token in cancelled}
            found = [token for token, began in since.items() if now - began >= seconds]
            self._cancelled_since = since | dict.fromkeys(found, math.inf)
            return [cancelled[token] for token in found]

    def close_when_empty(self, seconds: float) -> bool:
        """Wait until no handler runs and then take nothing more; return whether it came to that."""
        with self._changed:
            self._is_closed = self._changed.wait_for(lambda: len(self._contexts) == len(self._ended), seconds)
            return self._is_closed

"""Write what happens: each event changes its execution at once and is stored with the others of the same call."""

from __future__ import annotations

from collections import Counter
from typing import Any

from orbit_django.clock import Clock
from orbit_django.embedded.executions import Execution
from orbit_django.embedded.store import Event, Store


class Journal:
    """Collects events between two commits."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._pending: list[Event] = []
        self.counts: Counter[str] = Counter()  # how often each kind of event happened, since the history began

    def event(self, execution_id: str, kind: str, **data: Any) -> Event:
        """Note an event and return it."""
        event = Event(execution_id, kind, int(self._clock.wall() * 1000), data)
        self._pending.append(event)
        self.count(event)
        return event

    def count(self, event: Event) -> None:
        """Count an event, also one that was stored before."""
        self.counts[event.kind] += 1

    def record(self, execution: Execution, kind: str, **data: Any) -> None:
        """Note an event and apply it to its execution."""
        execution.apply(self.event(execution.id, kind, **data))

    def commit(self) -> None:
        """Store what was noted; what cannot be stored is kept for the next commit."""
        if self._pending:
            self._store.append(self._pending)
            self._pending = []

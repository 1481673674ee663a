"""The steps that wait for a worker, oldest first (O064, O065)."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from orbit_django.protocol import Contract

Unit = tuple[str, str]  # execution id, step


@dataclass(frozen=True, slots=True)
class Route:
    """What a session must offer to be handed a step."""

    contract: Contract
    using: str | None  # lower case; None: any runtime


class ReadySteps:
    """One line of waiting steps for each route."""

    def __init__(self) -> None:
        self._lines: dict[Route, deque[tuple[int, Unit]]] = {}
        self._places: dict[Unit, int] = {}  # the place that counts; others are left behind in the lines
        self._count = 0

    def __len__(self) -> int:
        return len(self._places)

    def add(self, route: Route, unit: Unit) -> None:
        """Put a step at the end of its line."""
        self._count += 1
        self._places[unit] = self._count
        self._lines.setdefault(route, deque()).append((self._count, unit))

    def discard(self, unit: Unit) -> None:
        """Forget a step that needs no worker any more."""
        self._places.pop(unit, None)

    def take(self, contracts: frozenset[Contract], runtime: str) -> Unit | None:
        """Take the oldest step that a session with these contracts and this (lower-case) runtime can serve."""
        if not self._places:
            return None
        routes = (Route(contract, using) for contract in contracts for using in (None, runtime))
        heads = [head for route in routes if (head := self._head(route))]
        if not heads:
            return None
        _, unit = min(heads)
        del self._places[unit]
        return unit

    def _head(self, route: Route) -> tuple[int, Unit] | None:
        line = self._lines.get(route)
        while line:
            place, unit = line[0]
            if self._places.get(unit) == place:
                return line[0]
            line.popleft()
        return None

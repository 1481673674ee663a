"""The health of several worker processes as one: each reports once a second, the worst of them is that of the whole."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

from orbit_django.clock import Clock
from orbit_django.worker.probes.health import Condition, readable
from orbit_django.worker.vitals import Numbers

SILENT_SECONDS = 5.0  # a process reports once a second
START_SECONDS = 60.0  # what it takes to start at most, on a slow machine with a large project
SUMMED = ("loops", "loops_busy", "held_deliveries")


class Place(Protocol):
    """What the supervisor knows of one of its processes."""

    @property
    def number(self) -> int: ...  # noqa: D102  (a field)
    @property
    def pid(self) -> int | None: ...  # noqa: D102
    @property
    def started_at(self) -> float: ...  # noqa: D102
    @property
    def restarts(self) -> int: ...  # noqa: D102
    @property
    def line(self) -> str | None: ...  # noqa: D102
    @property
    def line_at(self) -> float | None: ...  # noqa: D102


def report(condition: Condition) -> str:
    """Return the line that a process sends to its supervisor."""
    return json.dumps(readable(condition))


class Whole:
    """The processes of a supervisor; what they counted outlives them, so that no counter ever falls."""

    def __init__(
        self, places: Callable[[], Iterable[Place]], clock: Clock, is_stopping: Callable[[], bool] = lambda: False
    ) -> None:
        self._places = places
        self._clock = clock
        self._is_stopping = is_stopping
        self._lock = threading.Lock()
        self._past = Sum()  # of processes that have ended
        self._ended: dict[int, float] = {}  # by number, when the one that ended last had been started

    def farewell(self, place: Place) -> None:
        """Keep what a process counted that has ended."""
        given = _read(place)
        with self._lock:
            self._ended[place.number] = place.started_at
            if given is not None:
                self._past.add(given["numbers"])

    def condition(self) -> Condition:
        """Return what is true now."""
        faults, obstacles = [], ["draining: no process is started any more"] if self._is_stopping() else []
        places = list(self._places())
        with self._lock:
            total = self._past.copy()
            ended = dict(self._ended)
        for place in places:
            given = _read(place)
            wrong, missing = self._look(place, given)
            faults += wrong
            obstacles += missing
            if given is not None and ended.get(place.number) != place.started_at:
                total.add(given["numbers"], is_running=True)
        numbers = total.numbers()
        numbers.gauges["processes"] = sum(place.pid is not None for place in places)
        numbers.counts.append(["process_restarts", sum(place.restarts for place in places)])
        return Condition(faults, obstacles, numbers)

    def _look(self, place: Place, given: dict[str, Any] | None) -> tuple[list[str], list[str]]:
        """Return why a process does not live, and why it is not ready, each naming the process."""
        told = [f"process {place.number}: {text}" for text in self._silence(place)]
        if told or given is None:
            is_excused = place.pid is None and self._is_stopping()
            is_starting = place.pid is not None and self._clock.wall() - place.started_at < START_SECONDS
            is_fault = not (is_excused or (is_starting and place.line is None))
            return (told if is_fault else []), told
        faults, obstacles = (
            [f"process {place.number}: {text}" for text in given[kind]] for kind in ("faults", "obstacles")
        )
        return faults, obstacles

    def _silence(self, place: Place) -> Iterator[str]:
        if place.pid is None:
            yield "not running"
        elif place.line is None or place.line_at is None:
            yield "has not reported yet"
        elif (silence := self._clock.monotonic() - place.line_at) > SILENT_SECONDS:
            yield f"has not reported for {silence:.0f} s"


class Sum:
    """Numbers of several processes, added up."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, ...]] = Counter()
        self._seconds: dict[str, list[float]] = {}
        self._gauges: dict[str, float] = {}
        self._outbox: dict[str, list[Any]] = {}

    def copy(self) -> Sum:
        """Return another one that may be added to."""
        made = Sum()
        made._counts.update(self._counts)
        made._seconds = {task: list(found) for task, found in self._seconds.items()}
        return made

    def add(self, given: dict[str, Any], *, is_running: bool = False) -> None:
        """Add what a process counted and, while it runs, what is true of it now."""
        for *key, count in given["counts"]:
            self._counts[tuple(key)] += count
        for task, found in given["seconds"].items():
            before = self._seconds.get(task, [0.0] * len(found))
            self._seconds[task] = [one + other for one, other in zip(before, found, strict=True)]
        if is_running:
            self._add_present(given)

    def numbers(self) -> Numbers:
        """Return the sums."""
        counts = [[*key, count] for key, count in self._counts.items()]
        return Numbers(counts, self._seconds, self._gauges, self._outbox)

    def _add_present(self, given: dict[str, Any]) -> None:
        for name, value in given["gauges"].items():
            before = self._gauges.get(name, 0.0)
            self._gauges[name] = before + value if name in SUMMED else max(before, value)
        for using, row in given["outbox"].items():  # all measure the same table
            before_row = self._outbox.get(using, [0, 0, None])
            self._outbox[using] = [max(one or 0, other or 0) for one, other in zip(before_row, row, strict=True)]


def _read(place: Place) -> dict[str, Any] | None:
    """Return the last report; a process that was started from newer files may report in a form not known here."""
    try:
        given = json.loads(place.line or "null")
        is_known = {"faults", "obstacles"} <= given.keys() and {"counts", "seconds"} <= given["numbers"].keys()
    except (ValueError, AttributeError, KeyError):
        return None
    return given if is_known else None

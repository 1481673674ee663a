"""What a worker counts and how it gets on: plain numbers in memory, cheap to write and safe to read from anywhere.

Rooms tell in words what happened. Nothing here knows a format, the network or the database.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Self

from orbit_django.clock import Clock, SystemClock
from orbit_django.protocol import Code

BUCKETS = (0.005, 0.02, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 1800.0)  # seconds that handlers take
MEASURE_SECONDS = 15.0  # how old the depth of the outbox may grow
OWN_CODES = frozenset(Code)
OTHER_CODE = "OTHER"  # a code of a project: there may be any number of them
UNKNOWN_TASK = "(unknown)"  # a task that is not served here: its name is not ours, either


class Progress:
    """How one poll loop gets on: in a handler or not, and since when no poll of it was answered."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._has_answer = True  # whether a poll was answered since the latest session began
        self.since = clock.monotonic()
        self.is_busy = False

    def answered(self) -> None:
        """Note that the runtime answered a poll."""
        self._has_answer = True
        self.since = self._clock.monotonic()

    def held_up(self) -> None:
        """Note that the loop is kept from polling, so that no answer can be expected."""
        self.since = self._clock.monotonic()

    def has_session(self) -> None:
        """Note a new session: time for an answer begins anew, unless the session before brought none at all."""
        if self._has_answer:
            self.answered()
            self._has_answer = False

    def busy(self) -> Self:
        """Be in a handler, or on the way from there to the next poll, for as long as the block takes."""
        return self

    def __enter__(self) -> None:
        self.is_busy = True

    def __exit__(self, *error: object) -> None:
        self.since = self._clock.monotonic()
        self.is_busy = False


@dataclass
class Depth:
    """What the runtime has not answered on one database alias, as it was found when it was last measured."""

    pending: int
    blocked: int
    oldest_at: float | None  # when the oldest pending one was committed: seconds since the epoch


@dataclass
class Numbers:
    """What was counted, as plain values that JSON can carry."""

    counts: list[list[Any]] = field(default_factory=list)  # [name, first label, …, count]
    seconds: dict[str, list[float]] = field(default_factory=dict)  # by task: the sum, then the count in each bucket
    gauges: dict[str, float] = field(default_factory=dict)  # by name, what is true now
    outbox: dict[str, list[Any]] = field(default_factory=dict)  # by alias: pending, blocked, age of the oldest or None


class Vitals:
    """The counters of one process, and the moments when its rooms last succeeded."""

    def __init__(self, clock: Clock | None = None) -> None:
        self.clock = clock or SystemClock()
        self.is_watched = False  # whether anybody asks, so that measuring is worth a query
        self.on_first_task: Callable[[], object] | None = None  # called once, by the loop that was given it
        self.loops: dict[str, Progress] = {}
        self.looked_at: float | None = None  # when the database last answered the relay's look
        self.beat_at: float | None = None  # when a heartbeat was last answered
        self._lock = threading.Lock()
        self._counts: Counter[tuple[str, ...]] = Counter()
        self._seconds: dict[str, list[float]] = {}
        self._outbox: dict[str, Depth] = {}
        self._measured_at: dict[str, float] = {}

    def loop(self, name: str) -> Progress:
        """Begin to follow a poll loop."""
        progress = self.loops[name] = Progress(self.clock)
        return progress

    def tell(self, name: str, *labels: str) -> None:
        """Count one event: ``polls`` by outcome, ``delivery_attempts`` by result."""
        with self._lock:
            self._counts[name, *labels] += 1

    def received(self) -> None:
        """Note that a task was given to this process, before it can do any harm."""
        if self.on_first_task is None:  # so it is for all tasks but one
            return
        with self._lock:
            tell, self.on_first_task = self.on_first_task, None
        if tell is not None:
            tell()

    def finished(self, task: str, outcome: str, code: str = "") -> None:
        """Count a committed outcome: complete, fail (with its code), replay or conflict."""
        self.tell("tasks", task, outcome)
        if outcome == "fail":
            self.tell("task_failures", task, code if code in OWN_CODES else OTHER_CODE)

    def ran(self, task: str, seconds: float) -> None:
        """Count one run of a handler and the time that it took."""
        with self._lock:
            found = self._seconds.setdefault(task, [0.0] * (len(BUCKETS) + 2))
            found[0] += seconds
            found[1 + bisect_left(BUCKETS, seconds)] += 1

    def looked(self) -> None:
        """Note that the database answered a look at the outbox."""
        self.looked_at = self.clock.monotonic()

    def beat(self) -> None:
        """Note that the runtime answered a heartbeat."""
        self.beat_at = self.clock.monotonic()

    def wants_depth(self, using: str) -> bool:
        """Return whether the outbox of an alias is to be measured now."""
        last = self._measured_at.get(using)
        return self.is_watched and (last is None or self.clock.monotonic() - last >= MEASURE_SECONDS)

    def measured(self, using: str, depth: Depth) -> None:
        """Keep what was found."""
        self._measured_at[using] = self.clock.monotonic()
        self._outbox[using] = depth

    def numbers(self) -> Numbers:
        """Return a copy of all that was counted."""
        with self._lock:
            counts = [[*key, count] for key, count in self._counts.items()]
            seconds = {task: list(found) for task, found in self._seconds.items()}
        now = self.clock.wall()
        return Numbers(counts, seconds, self._gauges(), {a: _row(d, now) for a, d in list(self._outbox.items())})

    def _gauges(self) -> dict[str, float]:
        busy = sum(loop.is_busy for loop in self.loops.values())
        gauges: dict[str, float] = {"loops": len(self.loops), "loops_busy": busy}
        if self.beat_at is not None:
            gauges["heartbeat_age_seconds"] = self.clock.monotonic() - self.beat_at
        return gauges


def _row(depth: Depth, now: float) -> list[Any]:
    age = None if depth.oldest_at is None else max(now - depth.oldest_at, 0.0)
    return [depth.pending, depth.blocked, age]

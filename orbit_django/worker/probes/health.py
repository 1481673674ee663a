"""Whether a worker process lives and is ready, judged by what its threads last succeeded in."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

from orbit_django.worker.gate import DatabaseGate
from orbit_django.worker.held import Held
from orbit_django.worker.runner import LoopThread
from orbit_django.worker.session import SessionHolder
from orbit_django.worker.vitals import Numbers, Vitals

STUCK_SECONDS = 600.0  # a helper or a free poll loop that does not come round for so long is not waited for
SILENT_SECONDS = 120.0  # the same for the heartbeat, which waits for nothing but calls of 10 s
ANSWER_SECONDS = 30.0  # beyond POLL_WAIT_MS
LOOK_SECONDS = 15.0  # the relay asks the database once a second


class Condition(NamedTuple):
    """What one look at a worker finds."""

    faults: list[str]  # why it does not live; empty when it does
    obstacles: list[str]  # why it is not ready for work; empty when it is
    numbers: Numbers


class Patient(Protocol):
    """Whoever can be asked how it is; the answer comes at once."""

    def condition(self) -> Condition:
        """Return what is true now."""
        ...


class Rooms(NamedTuple):
    """What of a worker is looked at."""

    session: SessionHolder
    gate: DatabaseGate
    held: Held
    stop: threading.Event  # no new work is taken
    end: threading.Event  # the helpers end


class Health:
    """The health of the worker in this process."""

    def __init__(
        self, vitals: Vitals, rooms: Rooms, *, wait_ms: int, is_queued: Callable[[int | None], bool] = lambda _: False
    ) -> None:
        self._vitals = vitals
        self._rooms = rooms
        self._answer_seconds = wait_ms / 1000 + ANSWER_SECONDS
        self._is_queued = is_queued
        self._began_at = vitals.clock.monotonic()
        self._polls: Sequence[LoopThread] = ()
        self._helpers: Sequence[LoopThread] = ()

    def watch(self, polls: Sequence[LoopThread], helpers: Sequence[LoopThread]) -> None:
        """Begin to look after these threads, which have been started."""
        self._helpers, self._polls = tuple(helpers), tuple(polls)

    def condition(self) -> Condition:
        """Return what is true now."""
        numbers = self._vitals.numbers()
        numbers.counts.append(["session_registrations", self._rooms.session.count])
        numbers.gauges["held_deliveries"] = len(self._rooms.held)
        return Condition(list(self._faults()), list(self._obstacles()), numbers)

    def _faults(self) -> Iterator[str]:
        if not self._rooms.stop.is_set():
            yield from self._troubles(self._polls)
        if not self._rooms.end.is_set():
            yield from self._troubles(self._helpers)

    def _troubles(self, threads: Sequence[LoopThread]) -> Iterator[str]:
        """Tell of threads that ended, or have not come round for far too long; a handler may take its time."""
        now = self._vitals.clock.monotonic()
        for thread in threads:
            limit = SILENT_SECONDS if thread.loop.name == "heartbeat" else STUCK_SECONDS
            late = now - self._progress_of(thread)
            if not thread.is_alive():
                yield f"{thread.loop.name}: its thread has ended"
            elif late > limit and not self._is_queued(thread.ident):
                yield f"{thread.loop.name}: stuck for {late:.0f} s"

    def _progress_of(self, thread: LoopThread) -> float:
        """Return when a loop was last known to get on; a handler always does."""
        progress = self._vitals.loops.get(thread.loop.name)
        if progress is None:
            return thread.due_at
        return math.inf if progress.is_busy else max(thread.due_at, progress.since)

    def _obstacles(self) -> Iterator[str]:
        if self._rooms.stop.is_set():
            yield "draining: no new work is taken"
            return
        yield from self._faults()
        if self._rooms.session.peek() is None:
            yield "not registered with the runtime"
        yield from self._database_troubles()
        now = self._vitals.clock.monotonic()
        for name, progress in self._vitals.loops.items():
            silence = now - progress.since
            if not progress.is_busy and silence > self._answer_seconds:
                yield f"{name}: no poll was answered for {silence:.0f} s"

    def _database_troubles(self) -> Iterator[str]:
        if not self._rooms.gate.is_open:
            yield "the database cannot be reached"
            return
        looked_at = self._vitals.looked_at
        silence = self._vitals.clock.monotonic() - (self._began_at if looked_at is None else looked_at)
        is_queued = any(self._is_queued(thread.ident) for thread in self._helpers if thread.loop.name == "relay")
        if silence > LOOK_SECONDS and not is_queued:
            yield f"the database has not answered for {silence:.0f} s"
        elif looked_at is None and not is_queued:
            yield "the database has not been asked yet"


def readable(condition: Condition) -> dict[str, Any]:
    """Return a condition as plain values that JSON can carry."""
    return condition._asdict() | {"numbers": vars(condition.numbers)}

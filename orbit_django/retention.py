"""Removing what nobody needs any more, in small batches beside running workers.

Each batch looks at a bounded number of rows and is a short transaction of its own, so that a run can be interrupted
at any moment and begun again. What was not delivered is never removed, whatever its age: the owners of the tables
decide that once more when they hold the rows.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from threading import Event

from django.db import DatabaseError, IntegrityError, transaction
from django.utils import timezone

from orbit_django import effects, idempotency, outbox, starts
from orbit_django.clock import Clock, SystemClock
from orbit_django.dialects import dialect_of
from orbit_django.exceptions import RecordInUseError
from orbit_django.logs import SteadyLogger

logger = SteadyLogger(logging.getLogger(__name__))

BATCH = 500  # rows looked at by one transaction
LONGEST_REST = 1.0  # seconds
MAX_TRIES = 3  # of a batch that met a deadlock or a delivery
_never = Event()


@dataclass(frozen=True, slots=True)
class Pruned:
    """How much was removed, or would be."""

    records: int = 0
    messages: int = 0
    effects: int = 0
    starts: int = 0

    def __add__(self, other: Pruned) -> Pruned:
        return Pruned(
            self.records + other.records,
            self.messages + other.messages,
            self.effects + other.effects,
            self.starts + other.starts,
        )


def prune(
    using: str,
    days: float,
    *,
    is_dry_run: bool = False,
    clock: Clock | None = None,
    rest: Callable[[float], object] = _never.wait,
) -> Iterator[Pruned]:
    """Remove what has been settled for that many days, and yield after each batch how much that is by now.

    ``is_dry_run`` counts and writes nothing. Between batches it rests for as long as the last one took, so that
    workers get half of a database that has one writer.
    """
    clock = clock or SystemClock()
    before = timezone.now() - timedelta(days=days)
    total = Pruned()
    began = clock.monotonic()
    for batch in _batches(using, before, is_dry_run=is_dry_run):
        took = clock.monotonic() - began
        total += batch
        yield total
        if batch != Pruned() and not is_dry_run:
            rest(min(took, LONGEST_REST))
        began = clock.monotonic()


def _batches(using: str, before: datetime, *, is_dry_run: bool) -> Iterator[Pruned]:
    for keys in _windows(using, before):
        yield _counted(using, keys, before) if is_dry_run else _removed(using, keys, before)
    if is_dry_run:
        yield Pruned(messages=outbox.prunable_count(using, before), starts=starts.prunable_count(using, before))
        return
    while count := outbox.prune(using, before, BATCH):
        yield Pruned(messages=count)
    while count := starts.prune(using, before, BATCH):
        yield Pruned(starts=count)


def _windows(using: str, before: datetime) -> Iterator[list[int]]:
    """Yield the keys of records that are old enough, in the order of their end, and then of those without one."""
    place = None
    while places := idempotency.finished_before(using, before, place, BATCH):
        yield [key for _, key in places]
        place = places[-1]
    last = 0
    while keys := idempotency.unfinished(using, last, BATCH):
        yield keys
        last = keys[-1]


def _counted(using: str, keys: list[int], before: datetime) -> Pruned:
    found = idempotency.prunable(using, keys, before)
    messages = outbox.discard(using, found, is_dry_run=True)
    return Pruned(len(found), messages, effects.discard(using, found, is_dry_run=True))


def _removed(using: str, keys: list[int], before: datetime) -> Pruned:
    """Remove a batch; one that stays in somebody's way is left for the next run."""
    step: Callable[[], Pruned] = partial(_remove, using, keys, before)
    for _ in range(MAX_TRIES):
        try:
            return step()
        except DatabaseError as error:
            # Either a delivery came between, or the database asks to try again; all else ends the run.
            if not isinstance(error, IntegrityError) and not dialect_of(using).is_transient(error):
                raise
            logger.info("a batch was not removed", extra={"error": repr(error)})
    return Pruned()


def _remove(using: str, keys: list[int], before: datetime) -> Pruned:
    with dialect_of(using).writing(), transaction.atomic(using):
        held = idempotency.hold_prunable(using, keys, before)
        if not held:
            return Pruned()
        messages = outbox.discard(using, held)
        count = effects.discard(using, held)
        return Pruned(idempotency.discard(using, held), messages, count)


def forget(using: str, key: int) -> None:
    """Remove one record with its messages and effects, as a person asked: its next delivery runs the handler again.

    Raises RecordInUseError while anybody needs it.
    """
    if not _remove(using, [key], timezone.now()).records:
        raise RecordInUseError("a run of it goes on, a report of it has no answer, or an effect of it no outcome")

"""Workflows to start, asked for in transactions: append, claim what is due, settle. The only writer of its table.

Nothing here touches the network. A start is held by one sender at a time, for longer than a call may take; what a
dead sender held falls due by itself, and sending it once more starts nothing twice, since the id is the same.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import uuid4

from django.db import IntegrityError, transaction
from django.db.models import F, Q
from django.utils import timezone

from orbit_django.dialects import dialect_of
from orbit_django.exceptions import PayloadError, RefusedError, StartConflictError
from orbit_django.models import WorkflowStart
from orbit_django.payloads import compact, digest, fingerprint, plain, storable
from orbit_django.rows import refusals

HOLD_SECONDS = 15.0  # a sender's hold; a call takes at most 10 s
LIMIT_TEXT = 2_000

Status = WorkflowStart.Status


@dataclass(frozen=True, slots=True)
class HeldStart:
    """One start that a sender has taken."""

    using: str  # alias of the database that it is kept in
    pk: int
    mark: str  # of the sender
    workflow: str
    input: str = field(repr=False)  # JSON text, sent as it is
    execution_id: str
    tries: int  # this one included


def append(workflow: str, input: Any, execution_id: str, *, using: str) -> None:
    """Write a start into the caller's transaction, or outside of one into its own.

    The same id, workflow and input again writes nothing. Raises StartConflictError for an id that has another
    workflow or input, PayloadError for what JSON or a table cannot hold; either leaves the transaction usable.
    """
    wanted = _row(workflow, plain(input, "$.input"), execution_id)
    if _is_known(wanted, using):
        return
    dialect = dialect_of(using)
    wanted.due_at = dialect.now_ms()
    try:
        # The savepoint keeps the caller's transaction whole when somebody else commits a start with this id first.
        with dialect.writing(), transaction.atomic(using):
            wanted.save(using=using, force_insert=True)
    except IntegrityError:
        if not _is_known(wanted, using):
            raise  # the caller's snapshot is older than that start: the whole transaction has to be run again


def claim_due(using: str, limit: int, *, is_flush: bool = False, skip: Collection[int] = ()) -> list[HeldStart]:
    """Take up to ``limit`` starts that are due, and hold them.

    ``is_flush`` takes what backs off as well, but never what a sender holds. ``skip`` leaves these keys alone.
    """
    dialect = dialect_of(using)
    is_due = Q(due_at__lte=dialect.now_ms())
    if is_flush:
        is_due |= Q(sender="", due_at__isnull=False)
    rows = WorkflowStart.objects.using(using).filter(is_due, due_at__isnull=False).exclude(pk__in=skip)
    found = list(rows.order_by("due_at").values_list("pk", flat=True)[:limit])
    if not found:
        return []
    mark = uuid4().hex
    with dialect.writing():
        rows.filter(pk__in=sorted(found)).update(sender=mark, due_at=dialect.now_ms(HOLD_SECONDS))
    held = WorkflowStart.objects.using(using).filter(pk__in=found, sender=mark).order_by("pk")
    return [_held(row, using) for row in held]


def settle(start: HeldStart) -> None:
    """File that the runtime has the execution."""
    _close(start, Status.STARTED)


def refuse(start: HeldStart, refusal: RefusedError, text: str) -> None:
    """File that the runtime will not have it, with its words."""
    _close(start, Status.REFUSED, last_status=refusal.status, last_error=storable(text, LIMIT_TEXT))


def postpone(start: HeldStart, seconds: float, error: str) -> None:
    """Let go of a start that got no answer; it falls due again after that long."""
    _let_go(start, due_at=dialect_of(start.using).now_ms(seconds), last_error=storable(error, LIMIT_TEXT))


def block(start: HeldStart, refusal: RefusedError, text: str) -> None:
    """Set a start aside until a new worker tries it again."""
    told = {"last_status": refusal.status, "last_error": storable(text, LIMIT_TEXT)}
    _let_go(start, status=Status.BLOCKED, due_at=None, **told)


def unblock(using: str) -> int:
    """Let what is blocked be tried once more, as a worker does when it begins; return how many."""
    rows = WorkflowStart.objects.using(using).blocked()
    with dialect_of(using).writing():
        return rows.update(status=Status.PENDING, due_at=dialect_of(using).now_ms())


def counts(using: str) -> dict[str, int]:
    """Return how many starts there are in each state."""
    rows = WorkflowStart.objects.using(using)
    return {status.value: rows.filter(status=status).count() for status in Status}


def refused_count(using: str, limit: int, since: datetime | None = None) -> tuple[int, datetime | None]:
    """Return how many of the latest answers, up to ``limit``, refused a start for good, and when the last one did.

    Answers from before ``since`` are left out.
    """
    return refusals(WorkflowStart.objects.using(using), Q(status=Status.REFUSED), limit, since)


def pending_count(using: str) -> int:
    """Return how many starts have no answer yet and are not blocked, held ones included."""
    return WorkflowStart.objects.using(using).filter(due_at__isnull=False).count()


def prunable_count(using: str, before: datetime) -> int:
    """Return how many starts were answered before that time."""
    return WorkflowStart.objects.using(using).answered().filter(settled_at__lt=before).count()


def prune(using: str, before: datetime, limit: int) -> int:
    """Remove up to ``limit`` starts that were answered before that time; return how many."""
    rows = WorkflowStart.objects.using(using).answered().filter(settled_at__lt=before)
    keys = list(rows.order_by("settled_at", "pk").values_list("pk", flat=True)[:limit])
    with dialect_of(using).writing():
        return rows.filter(pk__in=keys)._raw_delete(using) if keys else 0


def _row(workflow: str, value: Any, execution_id: str) -> WorkflowStart:
    return WorkflowStart(
        workflow=_kept(workflow, "$.workflow"),
        execution_id=_kept(execution_id, "$.execution_id"),
        id_hash=digest(execution_id),
        input=compact(value),
        input_hash=fingerprint(value),
        status=Status.PENDING,
        created_at=timezone.now(),
    )


def _kept(text: Any, path: str) -> str:
    """Return a name as it is; raise PayloadError for one that a table would change."""
    if not isinstance(text, str) or not text:
        raise PayloadError(path, f"is {text!r}, expected a text that is not empty")
    if storable(text) != text:
        raise PayloadError(path, "holds U+0000 or half of a surrogate pair, which no table can keep")
    return text


def _is_known(wanted: WorkflowStart, using: str) -> bool:
    """Return whether this very start exists; raise StartConflictError when its id has another one."""
    known = WorkflowStart.objects.using(using).filter(id_hash=wanted.id_hash).first()
    if known is None:
        return False
    if known.workflow != wanted.workflow:
        raise StartConflictError(wanted.execution_id, "workflow")
    if known.input_hash != wanted.input_hash:
        raise StartConflictError(wanted.execution_id, "input")
    return True


def _held(row: WorkflowStart, using: str) -> HeldStart:
    return HeldStart(using, row.pk, row.sender, row.workflow, row.input, row.execution_id, row.attempts + 1)


def _close(start: HeldStart, status: str, **changes: object) -> None:
    """File a final answer, even when another sender holds or has blocked the start by now."""
    is_open = Q(status__in=[Status.PENDING, Status.BLOCKED])
    _write(start, is_open, status=status, due_at=None, settled_at=timezone.now(), **changes)


def _let_go(start: HeldStart, **changes: object) -> None:
    """File a try that settled nothing, unless another sender has taken the start over."""
    _write(start, Q(status=Status.PENDING, sender=start.mark), **changes)


def _write(start: HeldStart, is_open: Q, **changes: object) -> None:
    with dialect_of(start.using).writing():
        rows = WorkflowStart.objects.using(start.using).filter(is_open, pk=start.pk)
        rows.update(attempts=F("attempts") + 1, sender="", **changes)


def deliver_again(using: str, keys: Collection[int]) -> int:
    """Let the unanswered ones of these starts be sent at once, as a person asked; return how many.

    What a sender holds at this moment is left to it.
    """
    dialect = dialect_of(using)
    is_free = Q(sender="") | Q(due_at__isnull=True) | Q(due_at__lte=dialect.now_ms())
    rows = WorkflowStart.objects.using(using).filter(is_free, pk__in=keys)
    with dialect.writing():
        return rows.filter(status__in=[Status.PENDING, Status.BLOCKED]).update(
            status=Status.PENDING, due_at=dialect.now_ms(), sender="", last_status=None
        )

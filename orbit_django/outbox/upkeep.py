"""Messages in the hands of people and of time: unblock, requeue, move to another runtime, count, remove."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime

from django.db.models import Count, Q

from orbit_django.dialects import dialect_of
from orbit_django.models import OutboxMessage, OutboxMessageQuerySet
from orbit_django.outbox.sending import Origin, Status, alias_of
from orbit_django.protocol import BENIGN_REASONS
from orbit_django.rows import refusals

BATCH = 500  # rows changed by one statement


def unblock(using: str, origin: Origin, but: Iterable[OutboxMessage] = ()) -> int:
    """Let what is blocked, but for what this worker tried itself, be tried once more at a start; return how many.

    The status that blocked it is forgotten: what belongs to another identity is found out, and left to it, again.
    """
    rows = OutboxMessage.objects.using(using).blocked().filter(server=origin.server)
    found = set(rows.values_list("pk", flat=True))
    tried = {message.pk for message in but if alias_of(message) == using}  # looked at last: noted before it is written
    return _make_due(using, rows, found - tried)


def requeue(using: str, keys: Collection[int]) -> int:
    """Let the blocked ones of these messages be tried once more by anybody, as a person asked; return how many.

    The status that blocked them is forgotten: a 403 would go on reserving them for a worker that may be gone.
    """
    return _make_due(using, OutboxMessage.objects.using(using).blocked(), keys)


def requeue_all(using: str) -> int:
    """Let every blocked message be tried once more by anybody; return how many."""
    rows = OutboxMessage.objects.using(using).blocked().filter(settled_at__isnull=True)  # by its index
    return requeue(using, rows.values_list("pk", flat=True))


def deliver_again(using: str, keys: Collection[int]) -> int:
    """Let the unanswered ones of these messages be sent at once by anybody, as a person asked; return how many.

    What a sender holds at this moment is left to it.
    """
    is_free = Q(sender="") | Q(due_at__isnull=True) | Q(due_at__lte=dialect_of(using).now_ms())
    return _make_due(using, OutboxMessage.objects.using(using).undelivered().filter(is_free), keys)


def move(using: str, old: str, new: str) -> tuple[int, int]:
    """Give the unanswered messages of one runtime to another; return how many, and how many were left.

    What is left is being sent at this moment.
    """
    rows = OutboxMessage.objects.using(using).undelivered().filter(server=old, settled_at__isnull=True)
    is_free = Q(sender="") | Q(due_at__isnull=True) | Q(due_at__lte=dialect_of(using).now_ms())
    free = rows.filter(is_free)
    return _make_due(using, free, free.values_list("pk", flat=True), server=new), rows.count()


def discard(using: str, records: Collection[int], *, is_dry_run: bool = False) -> int:
    """Remove the answered messages of records that are about to go, or only count them; return how many."""
    rows = OutboxMessage.objects.using(using).answered().filter(record_id__in=records)
    return rows.count() if is_dry_run else rows._raw_delete(using)


def prunable_count(using: str, before: datetime) -> int:
    """Return how many messages without a record were answered before that time."""
    return _without_record(using, before).count()


def prune(using: str, before: datetime, limit: int) -> int:
    """Remove up to ``limit`` messages without a record that were answered before that time; return how many."""
    rows = _without_record(using, before)
    keys = list(rows.order_by("settled_at", "pk").values_list("pk", flat=True)[:limit])
    with dialect_of(using).writing():
        return rows.filter(pk__in=keys)._raw_delete(using) if keys else 0


def counts(using: str, server: str | None = None) -> dict[str, int]:
    """Return how many messages there are in each state, for every runtime or for one."""
    rows = OutboxMessage.objects.using(using).filter(**({} if server is None else {"server": server}))
    return {status.value: rows.filter(status=status).count() for status in Status}


def refused_count(using: str, limit: int, since: datetime | None = None) -> tuple[int, datetime | None]:
    """Return how many of the latest answers, up to ``limit``, refused a report for good, and when the last one did.

    What was superseded is not among them: nothing is wrong there. Answers from before ``since`` are left out.
    """
    is_refused = Q(status=Status.REFUSED) & ~superseded()
    return refusals(OutboxMessage.objects.using(using), is_refused, limit, since)


def superseded() -> Q:
    """Return a condition of refused messages: the reason means no trouble, somebody else was first."""
    found = Q()
    for reason in BENIGN_REASONS:
        found |= Q(reason__startswith=reason)
    return found


def declined_count(using: str) -> dict[str, int]:
    """Return for each binding that cannot carry some pending messages how many these are."""
    rows = OutboxMessage.objects.using(using).filter(due_at__isnull=False).exclude(declined_by="")
    return dict(rows.values_list("declined_by").annotate(Count("pk")).order_by("declined_by"))


def _make_due(using: str, rows: OutboxMessageQuerySet, keys: Iterable[int], **changes: object) -> int:
    """Let those of these messages that still are among the rows be sent by anybody, a batch at a time."""
    dialect = dialect_of(using)
    wanted, count = sorted(keys), 0
    for start in range(0, len(wanted), BATCH):
        batch = rows.filter(pk__in=wanted[start : start + BATCH])
        with dialect.writing():
            count += batch.update(
                status=Status.PENDING, due_at=dialect.now_ms(), sender="", last_status=None, **changes
            )
    return count


def _without_record(using: str, before: datetime) -> OutboxMessageQuerySet:
    return OutboxMessage.objects.using(using).answered().filter(record__isnull=True, settled_at__lt=before)

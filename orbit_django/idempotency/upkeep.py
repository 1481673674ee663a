"""Records that no delivery needs any more: found in order of their age, held, removed."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from django.db.models import Q
from django.utils import timezone

from orbit_django.dialects import dialect_of
from orbit_django.models import IdempotencyRecord

Place = tuple[datetime, int]  # where a look along the ends of records stands: an end, and a key


def finished_before(using: str, before: datetime, after: Place | None, limit: int) -> list[Place]:
    """Return the oldest records with an outcome from before that time, behind a place where an earlier look ended."""
    rows = IdempotencyRecord.objects.using(using).filter(finished_at__lt=before)
    if after is not None:
        moment, key = after
        rows = rows.filter(Q(finished_at__gt=moment) | Q(pk__gt=key), finished_at__gte=moment)
    found = rows.order_by("finished_at", "pk").values_list("finished_at", "pk")[:limit]
    return [(moment, key) for moment, key in found if moment is not None]


def unfinished(using: str, after: int, limit: int) -> list[int]:
    """Return keys of records without an outcome, behind the one where an earlier look ended."""
    rows = IdempotencyRecord.objects.using(using).filter(finished_at__isnull=True, pk__gt=after)
    return list(rows.order_by("pk").values_list("pk", flat=True)[:limit])


def prunable(using: str, keys: Collection[int], before: datetime) -> list[int]:
    """Return those of these records that no delivery needs since that time."""
    before_ms = dialect_of(using).now_ms(-(timezone.now() - before).total_seconds())
    rows = IdempotencyRecord.objects.using(using).filter(pk__in=keys)
    return list(rows.prunable(before, before_ms).values_list("pk", flat=True))


def hold_prunable(using: str, keys: Collection[int], before: datetime) -> list[int]:
    """Lock those of these records that may be removed, as the first thing in a transaction; return their keys.

    A record that a delivery has at this moment is left alone. What decides is read after the locks are had, since
    a delivery may have been answered from the record while this looked for it.
    """
    return prunable(using, dialect_of(using).lock_free(keys), before)


def discard(using: str, keys: Collection[int]) -> int:
    """Remove records that are held and have neither messages nor effects any more; return how many.

    Nothing is removed along with them: for a message that somebody added the database refuses.
    """
    return IdempotencyRecord.objects.using(using).filter(pk__in=keys)._raw_delete(using)

"""What stands above the lists: how much waits and for how long, and what was refused. Each count ends early."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any, NamedTuple

from django.contrib import admin
from django.contrib.admin.views.main import SEARCH_VAR
from django.db.models import Count, Min, Model, Q
from django.http import HttpRequest

from orbit_django import outbox, starts
from orbit_django.admin import databases, shown
from orbit_django.models import Effect, OutboxMessage, WorkflowStart

LIMIT = 1_000  # rows that a count looks at; of what was refused, the latest answers


Counting = Callable[[str], Iterator[tuple[str, str, int, datetime | None]]]


class Counter(NamedTuple):
    """One number with the list that it leads to."""

    noun: str
    word: str
    total: int
    since: datetime | None  # when the oldest of them began to wait, or the last of them was refused
    address: str

    @property
    def name(self) -> str:
        """What is counted."""
        return f"{self.noun if self.total == 1 else self.noun + 's'} {self.word}"

    @property
    def number(self) -> str:
        """The number as it is shown."""
        return f"{LIMIT:,} or more" if self.total >= LIMIT else f"{self.total:,}"

    @property
    def is_trouble(self) -> bool:
        """Whether a person has to do something about any of them."""
        return self.word in ("blocked", "uncertain", "refused")

    @property
    def age(self) -> str:
        """How long the oldest of them has waited, or how long ago the last of them was refused."""
        if self.since is None:
            return ""
        age = shown.age(self.since)
        return f"last {age} ago" if self.name.endswith("refused") else f"oldest {age}"


def counters(site: admin.AdminSite, request: HttpRequest, using: str, listed: type[Model]) -> Iterator[Counter]:
    """Yield the numbers of those tables that the user may look at.

    What was refused is told of the listed table alone, and not above what was searched for: pages stay cheap.
    """
    is_search = bool(request.GET.get(SEARCH_VAR))
    for model, count, refused in TABLES:
        if not request.user.has_perm(f"{model._meta.app_label}.view_{model._meta.model_name}"):
            continue
        told = [*count(using), *(refused(using) if refused and model is listed and not is_search else ())]
        for noun, word, number, since in told:
            yield Counter(noun, word, number, since, databases.list_of(site, model, using, status__exact=word))


def _messages(using: str) -> Iterator[tuple[str, str, int, datetime | None]]:
    rows = OutboxMessage.objects.using(using)
    yield "message", "pending", *_told(rows.pending().filter(due_at__isnull=False).order_by("due_at"))
    yield "message", "blocked", *_told(rows.blocked().filter(settled_at__isnull=True).order_by("settled_at"))


def _refused_messages(using: str) -> Iterator[tuple[str, str, int, datetime | None]]:
    yield "message", "refused", *outbox.refused_count(using, LIMIT)


def _effects(using: str) -> Iterator[tuple[str, str, int, datetime | None]]:
    yield "effect", "uncertain", *_told(Effect.objects.using(using).uncertain(), "started_at")


def _starts(using: str) -> Iterator[tuple[str, str, int, datetime | None]]:
    rows = WorkflowStart.objects.using(using).filter(settled_at__isnull=True).order_by("settled_at")[:LIMIT]
    is_pending, is_blocked = (Q(status=status) for status in ("pending", "blocked"))
    told = rows.aggregate(
        pending=Count("pk", filter=is_pending),
        blocked=Count("pk", filter=is_blocked),
        oldest_pending=Min("created_at", filter=is_pending),
        oldest_blocked=Min("created_at", filter=is_blocked),
    )
    for word in ("pending", "blocked"):
        yield "start", word, told[word], told[f"oldest_{word}"]


def _refused_starts(using: str) -> Iterator[tuple[str, str, int, datetime | None]]:
    yield "start", "refused", *starts.refused_count(using, LIMIT)


def _told(rows: Any, moment: str = "created_at") -> tuple[int, datetime | None]:
    told = rows[:LIMIT].aggregate(count=Count("pk"), oldest=Min(moment))
    return told["count"], told["oldest"]


TABLES: tuple[tuple[type[Model], Counting, Counting | None], ...] = (
    (OutboxMessage, _messages, _refused_messages),
    (Effect, _effects, None),
    (WorkflowStart, _starts, _refused_starts),
)

"""What the rooms that own tables do alike: new rows and marks, for which nothing is asked twice, and counts.

A row that is made here is like any other; it is saved by whoever owns its table.
"""

from __future__ import annotations

import itertools
import os
from datetime import datetime
from functools import cache
from typing import Any, TypeVar

from django.db import models

M = TypeVar("M", bound=models.Model)

PREFIX_BYTES = 10


def made(model: type[M], **values: Any) -> M:
    """Return a new row that is not saved; values by the names of columns, everything else as by default.

    Positional values spare Django a look at each default: half of what ``model(**values)`` takes.
    """
    return model(*{**_defaults(model), **values}.values())


def refusals(
    rows: models.QuerySet[Any], is_refused: models.Q, limit: int, since: datetime | None
) -> tuple[int, datetime | None]:
    """Return how many of the latest answers, up to ``limit``, are refusals, and when the last of them came.

    Answers from before ``since`` are left out. Goes along the index over ``settled_at``.
    """
    is_meant = models.Q(settled_at__isnull=False) if since is None else models.Q(settled_at__gte=since)
    latest = rows.filter(is_meant).order_by("-settled_at")[:limit]
    found = latest.aggregate(
        count=models.Count("pk", filter=is_refused), last=models.Max("settled_at", filter=is_refused)
    )
    return found["count"], found["last"]


@cache
def _defaults(model: type[models.Model]) -> dict[str, Any]:
    """Return what each column of a new row holds, in their order; no default of these tables is made anew each time."""
    return {field.attname: None if field.is_relation else field.get_default() for field in model._meta.concrete_fields}


class _Marks:
    """Texts of 32 hexadecimal digits that nobody else makes: random for each process, counted within it."""

    def __init__(self) -> None:
        self._start()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._start)

    def _start(self) -> None:
        self._prefix = os.urandom(PREFIX_BYTES).hex()
        self._numbers = itertools.count()

    def new(self) -> str:
        return f"{self._prefix}{next(self._numbers):012x}"


_marks = _Marks()


def new_mark() -> str:
    """Return a text that is nowhere else; not to be used where it must not be guessed."""
    return _marks.new()

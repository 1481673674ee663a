"""Lists that are as quick with a million rows as with ten.

A list never counts the table, never sorts by a column without an index, never loads the wide columns, and reads a
bounded number of rows for whatever no index finds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from django.contrib import admin
from django.contrib.admin.views.main import ChangeList
from django.core.paginator import Paginator
from django.db import connections
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils.functional import cached_property

from orbit_django.admin import databases

MOST_LISTED = 10_000
MOST_FOUND = 1_000  # rows that a search goes on with
WINDOW = 100_000  # newest rows that are read for a filter without an index


class ShortPaginator(Paginator):  # type: ignore[type-arg]  # it is generic for the type checker alone
    """Pages over the newest rows of a list; counting stops where the pages end."""

    @cached_property
    def count(self) -> int:
        """Return the number of rows, at most MOST_LISTED."""
        rows: Any = self.object_list
        return int(rows.order_by().values("pk")[:MOST_LISTED].count())


class NarrowList(ChangeList):
    """A list that loads what its columns show and nothing else."""

    note = ""  # what the list leaves out

    def get_queryset(self, request: HttpRequest, exclude_parameters: Any = None) -> QuerySet[Any]:
        """Return the rows without the columns that only a row's own page shows."""
        rows = super().get_queryset(request, exclude_parameters)
        filters = [spec for spec in self.filter_specs if isinstance(spec, WordFilter) and spec.word]
        if getattr(request, "orbit_found_more", False):
            self.note = f"More than {MOST_FOUND:,} rows match; this shows {MOST_FOUND:,} of them. Give more of the id."
        elif filters and not self.query:
            rows = self._bounded(rows) if any(spec.order for spec in filters) else self._newest(rows)
        return self.model_admin.narrowed(rows)  # type: ignore[attr-defined,no-any-return]  # a LedgerAdmin

    def get_ordering(self, request: HttpRequest, queryset: QuerySet[Any]) -> Any:
        """Return the order: along the index that finds the rows, so that no database reads the table instead."""
        orders = [spec.order for spec in self.filter_specs if isinstance(spec, WordFilter) and spec.order]
        return orders[0] if orders and not self.query else super().get_ordering(request, queryset)

    def url_for_result(self, result: Any) -> str:
        """Return the address of a row's page, which names its database."""
        return databases.address_of(self.model_admin.admin_site, result)

    def _bounded(self, rows: QuerySet[Any]) -> QuerySet[Any]:
        """Find the rows before anything is joined to them: there may be very many."""
        keys = rows.values_list("pk", flat=True)[:MOST_LISTED]
        found: Any = keys if connections[rows.db].features.allow_sliced_subqueries_with_in else list(keys)
        return self.root_queryset.using(rows.db).filter(pk__in=found).order_by(*rows.query.order_by)

    def _newest(self, rows: QuerySet[Any]) -> QuerySet[Any]:
        before = (self._last(rows.db) or 0) - WINDOW
        if before <= 0:
            return rows
        self.note = f"This filter looks through the newest {WINDOW:,} rows."
        return rows.filter(pk__gt=before)

    def _last(self, using: str) -> int | None:
        return self.model._default_manager.using(using).order_by("-pk").values_list("pk", flat=True).first()


class WordFilter(admin.SimpleListFilter):
    """A filter over words that are known beforehand, so that nothing is counted or collected."""

    words: ClassVar[Iterable[str]] = ()
    orders: ClassVar[Mapping[str, tuple[str, ...]]] = {}  # words that an index finds, and the order along it

    @property
    def word(self) -> str:
        """The word that is chosen, or an empty text."""
        return next((str(word) for word in self.words if str(word) == self.value()), "")

    @property
    def order(self) -> tuple[str, ...]:
        """The order along the index that finds the chosen word; empty when none does."""
        return self.orders.get(self.word, ())

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        """Return the words to choose from."""
        return [(str(word), str(word).replace("_", " ")) for word in self.words]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Return the rows that the chosen word keeps."""
        return queryset.filter(self.kept(self.word)) if self.word else queryset

    def kept(self, word: str) -> Q:
        """Return what a row must be."""
        return Q(**{str(self.parameter_name): word})


def beginning(path: str, term: str, using: str) -> Q:
    """Return how to find texts that begin so, by an index on every database.

    One database looks into its index for a comparison that ignores case alone, one for none that LIKE makes.
    """
    found = Q(**{f"{path}__startswith": term, f"{path}__istartswith": term})
    if connections[using].features.has_case_insensitive_like:
        found &= Q(**{f"{path}__gte": term, f"{path}__lt": term + chr(0x10FFFF)})
    return found

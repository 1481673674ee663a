"""What the pages of all tables have in common: read-only, and as quick with a million rows as with ten.

A list never counts the table, never sorts by a column without an index, and never loads the wide columns.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar
from urllib.parse import quote

from django.contrib import admin
from django.contrib.admin.views.main import ChangeList
from django.core.paginator import Paginator
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils.functional import cached_property
from django.utils.html import format_html

from orbit_django.admin import shown
from orbit_django.models import IdempotencyRecord
from orbit_django.payloads import digest, storable
from orbit_django.protocol import StepKind
from orbit_django.tasks import registry

MOST_LISTED = 10_000
PER_PAGE = 50


class ShortPaginator(Paginator):  # type: ignore[type-arg]  # as below
    """Pages over the newest rows of a list; counting stops where the pages end."""

    @cached_property
    def count(self) -> int:
        """Return the number of rows, at most MOST_LISTED."""
        rows: Any = self.object_list
        return int(rows.order_by().values("pk")[:MOST_LISTED].count())


class NarrowList(ChangeList):
    """A list that loads what its columns show and nothing else."""

    def get_queryset(self, request: HttpRequest, exclude_parameters: Any = None) -> QuerySet[Any]:
        """Return the rows without the columns that only a row's own page shows."""
        return self.model_admin.narrowed(super().get_queryset(request, exclude_parameters))  # type: ignore[attr-defined,no-any-return]  # a LedgerAdmin


class LedgerAdmin(admin.ModelAdmin):  # type: ignore[type-arg]  # it is generic for the type checker alone
    """Pages of a table that only the worker writes."""

    ordering = ("-pk",)
    sortable_by = ()
    list_per_page = PER_PAGE
    list_max_show_all = PER_PAGE
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    paginator = ShortPaginator
    search_fields = ("execution_id",)
    search_help_text = (
        "A whole execution id or idempotency key, or the beginning of an execution id. "
        f"The pages show the newest {MOST_LISTED:,} rows; search and filters reach all of them."
    )

    def narrowed(self, rows: QuerySet[Any]) -> QuerySet[Any]:
        """Return the rows of a list with the columns that it shows."""
        raise NotImplementedError

    def found(self, term: str, rows: QuerySet[Any]) -> tuple[Q, Q]:
        """Return what a search matches by an index, and what to look for when that finds nothing."""
        raise NotImplementedError

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        """Return the list that leaves out wide columns."""
        return NarrowList

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        """Search by index first; only when that finds nothing is the table read."""
        if not search_term.strip():
            return queryset, False
        by_index, by_reading = self.found(storable(search_term.strip()), queryset)
        quick = queryset.filter(by_index)
        return (quick if quick.exists() else queryset.filter(by_reading)), False

    @admin.display(description="execution")
    def execution(self, row: Any) -> str:
        """Show the execution, leading to all its rows."""
        name = row.execution_id
        return format_html('<a href="?q={}">{}</a>', quote(name, safe=""), shown.cell(name)) if name else "-"

    @admin.display(description="age")
    def age(self, row: Any) -> str:
        """Show how long ago the row was made."""
        return shown.age(row.created_at)

    def has_add_permission(self, request: HttpRequest, *_args: Any) -> bool:
        """Refuse: a row that a person makes has no delivery behind it."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Refuse, which makes every page read-only."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Refuse: without its row a task would run, or be reported, once more."""
        return False


class WordFilter(admin.SimpleListFilter):
    """A filter over words that are known beforehand, so that nothing is counted or collected."""

    words: ClassVar[Iterable[str]] = ()

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        """Return the words to choose from."""
        return [(str(word), str(word)) for word in self.words]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Return the rows that the chosen word keeps."""
        chosen = [str(word) for word in self.words if str(word) == self.value()]
        return queryset.filter(self.kept(chosen[0])) if chosen else queryset

    def kept(self, word: str) -> Q:
        """Return what a row must be."""
        return Q(**{str(self.parameter_name): word})


def hashes_of(key: str) -> list[str]:
    """Return the record digests that a key can have with the tasks that this project serves."""
    names = {task.contract.task_name for task in registry}
    return [digest(name, kind, key) for name in names for kind in StepKind]


def records_of(key: str, using: str) -> list[int]:
    """Return the primary keys of a key's records, by index."""
    rows = IdempotencyRecord.objects.using(using).filter(key_hash__in=hashes_of(key))
    return list(rows.values_list("pk", flat=True)[:100])

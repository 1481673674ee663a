"""What the pages of all tables have in common: read-only, with the counters on top and a way to everything else."""

from __future__ import annotations

from typing import Any

import django
from django.contrib import admin
from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.admin.views.main import ChangeList
from django.contrib.contenttypes.models import ContentType
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.html import format_html
from django.utils.text import capfirst

from orbit_django.admin import databases, shown
from orbit_django.admin.counters import counters
from orbit_django.admin.lists import MOST_FOUND, MOST_LISTED, NarrowList, ShortPaginator
from orbit_django.models import IdempotencyRecord
from orbit_django.payloads import cut, digest, storable
from orbit_django.protocol import StepKind
from orbit_django.tasks import registry

PER_PAGE = 50


class LedgerAdmin(admin.ModelAdmin):  # type: ignore[type-arg]  # it is generic for the type checker alone
    """Pages of a table that only the worker writes."""

    ordering = ("-pk",)
    sortable_by = ()
    list_per_page = PER_PAGE
    list_max_show_all = PER_PAGE
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    change_list_template = "admin/orbit_django/change_list.html"
    paginator = ShortPaginator
    search_fields = ("execution_id",)
    search_help_text = (
        "A whole execution id or idempotency key, or the beginning of an execution id. "
        f"The pages show the newest {MOST_LISTED:,} rows; a search reaches all of them."
    )
    joined: tuple[str, ...] = ()  # what a row's own page shows of other tables

    def narrowed(self, rows: QuerySet[Any]) -> QuerySet[Any]:
        """Return the rows of a list with the columns that it shows."""
        raise NotImplementedError

    def found(self, term: str, using: str) -> Q:
        """Return what a search matches, all of it by an index."""
        raise NotImplementedError

    def keys_of(self, term: str, using: str) -> list[int]:
        """Return the keys of what a search matches, one more than MOST_FOUND at most."""
        rows = self.model._default_manager.using(using).filter(self.found(term, using))
        return list(rows.values_list("pk", flat=True)[: MOST_FOUND + 1])

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Return the rows of the database that the project's tasks use, whatever a router would say."""
        return super().get_queryset(request).using(databases.home())

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        """Return the row that an address names."""
        rows = self.get_queryset(request)
        return databases.find(rows.select_related(*self.joined) if self.joined else rows, object_id)

    def get_list_filter(self, request: HttpRequest) -> Any:
        """Add the choice of a database where there is more than one."""
        more = (databases.DatabaseFilter,) if len(databases.in_use()) > 1 else ()
        return (*super().get_list_filter(request), *more)

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        """Return the list that leaves out wide columns."""
        return NarrowList

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Show the list with the counters above it."""
        using = databases.chosen(request)
        is_shown = request.method == "GET"
        above = {"counters": list(counters(self.admin_site, request, using, self.model))} if is_shown else {}
        return super().changelist_view(request, above | (extra_context or {}))

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        """Look up by index, and go on with a bounded number of rows."""
        if not search_term.strip():
            return queryset, False
        keys = self.keys_of(storable(search_term.strip()), queryset.db)
        request.orbit_found_more = len(keys) > MOST_FOUND  # type: ignore[attr-defined]  # the list tells about it
        return queryset.filter(pk__in=keys[:MOST_FOUND]), False

    def render_change_form(self, request: HttpRequest, context: Any, *args: Any, **kwargs: Any) -> HttpResponse:
        """Add the ways from a row to its execution and to what people decided about it."""
        if row := context.get("original"):
            context["history_address"] = databases.address_of(self.admin_site, row, "history")
            if name := self.execution_id_of(row):
                context["execution_address"] = databases.execution_of(self.admin_site, name, row._state.db)
        return super().render_change_form(request, context, *args, **kwargs)

    def execution_id_of(self, row: Any) -> str:
        """Return the execution that a row belongs to."""
        return str(row.execution_id)

    def record_decision(self, request: HttpRequest, rows: Any, text: str) -> None:
        """Keep in the admin's log what a person decided about rows."""
        about = {"user_id": request.user.pk, "content_type": ContentType.objects.get_for_model(self.model)}
        entries = [
            LogEntry(
                object_id=databases.name_of(row),
                object_repr=str(row)[:200],
                action_flag=CHANGE,
                change_message=text,
                **about,
            )
            for row in rows
        ]
        LogEntry.objects.bulk_create(entries)

    @admin.display(description="execution")
    def execution(self, row: Any) -> str:
        """Show the execution, leading to all that is known about it."""
        return self.way_to(row.execution_id, row)

    def way_to(self, execution_id: str, row: Any, length: int = 20) -> str:
        """Return an execution's id as the link to its page."""
        if not execution_id:
            return "-"
        address = databases.execution_of(self.admin_site, execution_id, row._state.db)
        return format_html('<a href="{}">{}</a>', address, shown.cell(execution_id, length))

    def link(self, row: Any, text: str) -> str:
        """Return a text as the link to the page of a row."""
        return format_html('<a href="{}">{}</a>', databases.address_of(self.admin_site, row), text)

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


def trail(site: admin.AdminSite, opts: Any, *steps: tuple[str | None, str]) -> dict[str, Any]:
    """Return the way to a page of our own, from the app on: steps of text and address, the page itself without one.

    The text None stands for the name of the table. How Django marks such a way up changed with its version 6.1.
    """
    app = reverse("admin:app_list", kwargs={"app_label": opts.app_label}, current_app=site.name)
    named = [(capfirst(opts.verbose_name_plural) if text is None else cut(text, 60), to) for text, to in steps]
    return {"trail": [(opts.app_config.verbose_name, app), *named], "is_trail_listed": django.VERSION >= (6, 1)}


def hashes_of(key: str) -> list[str]:
    """Return the record digests that a key can have with the tasks that this project serves."""
    names = {task.contract.task_name for task in registry}
    return [digest(name, kind, key) for name in names for kind in StepKind]


def records_of(key: str, using: str) -> list[int]:
    """Return the primary keys of a key's records, by index."""
    rows = IdempotencyRecord.objects.using(using).filter(key_hash__in=hashes_of(key))
    return list(rows.values_list("pk", flat=True)[:100])

"""Idempotency records in the admin: what became of each key."""

from __future__ import annotations

from typing import Any, ClassVar

from django.conf import settings
from django.contrib import admin
from django.db import transaction
from django.db.models import Q, QuerySet
from django.db.models.functions import Left
from django.http import HttpRequest
from django.urls import URLPattern, path
from django.utils.html import format_html_join

from orbit_django.admin import databases, shown
from orbit_django.admin.execution import ExecutionPage
from orbit_django.admin.forgetting import PERMISSION, ForgetPage
from orbit_django.admin.lists import WordFilter, beginning
from orbit_django.admin.pages import LedgerAdmin, hashes_of
from orbit_django.models import IdempotencyRecord
from orbit_django.payloads import cut
from orbit_django.protocol import StepKind

MOST_REPORTS = 20
Status = IdempotencyRecord.Status


class RecordStatusFilter(WordFilter):
    """By status; what has not finished is found by the index over the end."""

    title = "status"
    parameter_name = "status__exact"
    words = Status.values
    orders: ClassVar = {Status.RUNNING: ("-finished_at", "-pk")}

    def kept(self, word: str) -> Q:
        """Return what a row must be."""
        return Q(status=word, finished_at__isnull=word == Status.RUNNING)


class StepKindFilter(WordFilter):
    """By the kind of step."""

    title = "kind of step"
    parameter_name = "step_kind__exact"
    words = StepKind


@admin.register(IdempotencyRecord)
class IdempotencyRecordAdmin(LedgerAdmin):
    """Records, newest first."""

    list_display = ("state", "task", "key", "execution", "code", "attempt", "age")
    list_filter = (RecordStatusFilter, StepKindFilter)
    fieldsets = (
        (None, {"fields": ("state", "task", "step_kind", "whole_key", "workflow", "whole_execution", "step_id")}),
        ("Outcome", {"fields": ("attempt", "shown_output", "shown_error", "reports", "its_effects")}),
        (
            "Claim",
            {"fields": ("worker_id", "generation", "lease_until", "redeliveries", "created_at", "finished_at")},
        ),
        ("Compared with later deliveries", {"fields": ("contract_version", "input_hash")}),
    )
    readonly_fields = (
        "state", "task", "whole_key", "whole_execution", "shown_output", "shown_error", "reports", "its_effects",
        "lease_until", "forgetting",
    )  # fmt: skip

    def narrowed(self, rows: QuerySet[Any]) -> QuerySet[Any]:
        """Return the rows with the columns of the list, the boundless ones cut by the database."""
        kept = rows.only("status", "execution_id", "attempt", "created_at")
        narrow: QuerySet[Any] = kept.annotate(
            head_task=Left("task_name", 200),
            head_version=Left("contract_version", 50),
            head_key=Left("idempotency_key", 200),
            head_error=Left("error", 300),
        )
        return narrow

    def found(self, term: str, using: str) -> Q:
        """Return how to find an execution or a key."""
        return beginning("execution_id", term, using) | Q(key_hash__in=hashes_of(term))

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        """Return the record with the tokens that its texts must not show."""
        record = super().get_object(request, object_id, from_field)
        if record is not None:
            record.tokens = shown.tokens_of(record)
        return record

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        """Return what a page shows: the way to forget it only to who may."""
        ways = (("Forget", {"fields": ("forgetting",)}),) if obj and request.user.has_perm(PERMISSION) else ()
        return (*self.fieldsets, *ways)

    def get_urls(self) -> list[URLPattern]:
        """Add the page of an execution and the one that forgets."""
        forget = self.admin_site.admin_view(ForgetPage(self).show)
        for using in settings.DATABASES:  # forgetting is a transaction of its own, which begins with a lock
            forget = transaction.non_atomic_requests(using)(forget)
        mine = [
            path("execution/", self.admin_site.admin_view(ExecutionPage(self).show), name="orbit_django_execution"),
            path("<path:object_id>/forget/", forget, name="orbit_django_idempotencyrecord_forget"),
        ]
        return [*mine, *super().get_urls()]

    @admin.display(description="status")
    def state(self, record: Any) -> str:
        """Show where the record stands."""
        return shown.label(record.status)

    @admin.display(description="task")
    def task(self, record: Any) -> str:
        """Show name and version of the task."""
        if hasattr(record, "head_task"):
            return shown.named(record.head_task, record.head_version)
        return shown.named(record.task_name, record.contract_version, 255)

    @admin.display(description="key")
    def key(self, record: Any) -> str:
        """Show the beginning of the key."""
        return shown.cell(record.head_key)

    @admin.display(description="error code")
    def code(self, record: Any) -> str:
        """Show the code of a stored failure."""
        return shown.cell(shown.code_of(record.head_error), 30)

    @admin.display(description="key")
    def whole_key(self, record: Any) -> str:
        """Show the key."""
        return shown.block(cut(record.idempotency_key, 2_000))

    @admin.display(description="output")
    def shown_output(self, record: Any) -> str:
        """Show the stored success."""
        return self._outcome(record, record.output)

    @admin.display(description="error")
    def shown_error(self, record: Any) -> str:
        """Show the stored failure."""
        return self._outcome(record, record.error)

    @admin.display(description="claimed until")
    def lease_until(self, record: Any) -> str:
        """Show when a claim outside a transaction ends, if there is one."""
        return shown.time_of(record.lease_ms)

    @admin.display(description="execution")
    def whole_execution(self, record: Any) -> str:
        """Lead to the execution."""
        return self.way_to(record.execution_id, record, 255)

    @admin.display(description="reports")
    def reports(self, record: Any) -> str:
        """Show the newest messages that report this record."""
        rows = (
            record.messages.using(record._state.db)
            .order_by("-pk")
            .only("record", "kind", "status", "attempt")[:MOST_REPORTS]
        )
        lines = [(self.link(row, f"{row.kind} of attempt {row.attempt}"), row.status) for row in rows]
        return format_html_join("", "<div>{}, {}</div>", lines) or "-"

    @admin.display(description="effects")
    def its_effects(self, record: Any) -> str:
        """Show the newest effects of this record."""
        rows = record.effects.using(record._state.db).order_by("-pk").only("record", "name", "status")[:MOST_REPORTS]
        lines = [(self.link(row, shown.cell(row.name, 40)), row.status) for row in rows]
        return format_html_join("", "<div>{}, {}</div>", lines) or "-"

    @admin.display(description="have the handler run again")
    def forgetting(self, record: Any) -> str:
        """Lead to the page that forgets it."""
        return shown.button("Forget this record…", databases.address_of(self.admin_site, record, "forget"))

    def _outcome(self, record: Any, text: str | None) -> str:
        if text and shown.is_hidden(record.task_name):
            return shown.HIDDEN
        return shown.json_block(text, record.tokens)

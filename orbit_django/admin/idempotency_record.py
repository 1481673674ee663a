"""Idempotency records in the admin: what became of each key."""

from __future__ import annotations

import re
from typing import Any

from django.contrib import admin
from django.db.models import Q, QuerySet
from django.db.models.functions import Left
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html_join

from orbit_django.admin import shown
from orbit_django.admin.pages import LedgerAdmin, WordFilter, hashes_of
from orbit_django.models import IdempotencyRecord
from orbit_django.payloads import cut
from orbit_django.protocol import StepKind

ERROR_CODE = re.compile(r'"error_code":\s*"([^"\\]{1,200})')
MOST_REPORTS = 20
Status = IdempotencyRecord.Status


class RecordStatusFilter(WordFilter):
    """By status; what has not finished is found by the index over the end."""

    title = "status"
    parameter_name = "status__exact"
    words = Status.values

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
        (None, {"fields": ("state", "task", "step_kind", "whole_key", "workflow", "execution_id", "step_id")}),
        ("Outcome", {"fields": ("attempt", "shown_output", "shown_error", "reports")}),
        (
            "Claim",
            {"fields": ("worker_id", "generation", "lease_until", "redeliveries", "created_at", "finished_at")},
        ),
        ("Compared with later deliveries", {"fields": ("contract_version", "input_hash")}),
    )
    readonly_fields = (
        "state", "task", "whole_key", "shown_output", "shown_error", "reports", "lease_until",
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

    def found(self, term: str, rows: QuerySet[Any]) -> tuple[Q, Q]:
        """Return how to find an execution or a key."""
        by_index = Q(execution_id=term) | Q(key_hash__in=hashes_of(term))
        return by_index, Q(execution_id__startswith=term) | Q(idempotency_key=term)

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        """Return the record with the tokens that its texts must not show."""
        record = super().get_object(request, object_id, from_field)
        if record is not None:
            record.tokens = list(record.messages.order_by("pk").values_list("token", flat=True)[:100])
        return record

    @admin.display(description="status")
    def state(self, record: Any) -> str:
        """Show where the record stands."""
        return shown.label(record.status)

    @admin.display(description="task")
    def task(self, record: Any) -> str:
        """Show name and version of the task."""
        if hasattr(record, "head_task"):
            return shown.named(record.head_task, record.head_version)
        return shown.named(record.task_name, record.contract_version)

    @admin.display(description="key")
    def key(self, record: Any) -> str:
        """Show the beginning of the key."""
        return shown.cell(record.head_key)

    @admin.display(description="error code")
    def code(self, record: Any) -> str:
        """Show the code of a stored failure."""
        found = ERROR_CODE.search(record.head_error or "")
        return shown.cell(found[1], 30) if found else "-"

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

    @admin.display(description="reports")
    def reports(self, record: Any) -> str:
        """Show the newest messages that report this record."""
        rows = record.messages.order_by("-pk").only("pk", "kind", "status", "attempt", "created_at")[:MOST_REPORTS]
        lines = [(self._address(row), row.kind, row.attempt, row.status) for row in rows]
        return format_html_join("", '<div><a href="{}">{} of attempt {}</a>, {}</div>', lines) or "-"

    def _address(self, message: Any) -> str:
        name = "admin:orbit_django_outboxmessage_change"
        return reverse(name, args=[message.pk], current_app=self.admin_site.name)

    def _outcome(self, record: Any, text: str | None) -> str:
        if text and shown.is_hidden(record.task_name):
            return shown.HIDDEN
        return shown.json_block(text, record.tokens)

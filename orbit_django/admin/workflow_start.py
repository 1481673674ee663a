"""Starts of workflows in the admin: what was asked for and what became of it."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import Q, QuerySet
from django.db.models.functions import Left

from orbit_django.admin import shown
from orbit_django.admin.pages import LedgerAdmin, WordFilter
from orbit_django.models import WorkflowStart
from orbit_django.payloads import cut, digest

Status = WorkflowStart.Status


class StartStatusFilter(WordFilter):
    """By status; what has no final answer is found by the index over the answers' times."""

    title = "status"
    parameter_name = "status__exact"
    words = Status.values

    def kept(self, word: str) -> Q:
        """Return what a row must be."""
        return Q(status=word, settled_at__isnull=word in (Status.PENDING, Status.BLOCKED))


@admin.register(WorkflowStart)
class WorkflowStartAdmin(LedgerAdmin):
    """Starts, newest first."""

    list_display = ("state", "which", "execution", "age", "tries", "trouble")
    list_filter = (StartStatusFilter,)
    search_help_text = "A whole execution id, or its beginning."
    fieldsets = (
        (None, {"fields": ("state", "whole_workflow", "whole_id", "created_at", "settled_at")}),
        ("Delivery", {"fields": ("tries", "last_status", "whole_error", "next_try")}),
        ("Request", {"fields": ("shown_input",)}),
    )
    readonly_fields = ("state", "whole_workflow", "whole_id", "tries", "whole_error", "next_try", "shown_input")

    def narrowed(self, rows: QuerySet[Any]) -> QuerySet[Any]:
        """Return the rows with the columns of the list, the boundless ones cut by the database."""
        narrow: QuerySet[Any] = rows.defer("input", "workflow", "execution_id", "last_error").annotate(
            head_workflow=Left("workflow", 200), head_id=Left("execution_id", 255), head_error=Left("last_error", 200)
        )
        return narrow

    def found(self, term: str, rows: QuerySet[Any]) -> tuple[Q, Q]:
        """Return how to find an execution."""
        return Q(id_hash=digest(term)), Q(execution_id__startswith=term)

    @admin.display(description="status")
    def state(self, start: Any) -> str:
        """Show where the start stands."""
        return shown.label(start.status)

    @admin.display(description="workflow")
    def which(self, start: Any) -> str:
        """Show the workflow."""
        return shown.cell(start.head_workflow, 40)

    @admin.display(description="execution")
    def execution(self, start: Any) -> str:
        """Show the execution."""
        return shown.cell(start.head_id, 40)

    @admin.display(description="tries")
    def tries(self, start: Any) -> int:
        """Show how often it was sent."""
        return int(start.attempts)

    @admin.display(description="last error")
    def trouble(self, start: Any) -> str:
        """Show the beginning of what the latest try ran into."""
        return shown.sentence(start.head_error)

    @admin.display(description="workflow")
    def whole_workflow(self, start: Any) -> str:
        """Show the workflow."""
        return shown.block(cut(start.workflow, 2_000))

    @admin.display(description="execution")
    def whole_id(self, start: Any) -> str:
        """Show the id of the execution."""
        return shown.block(cut(start.execution_id, 2_000))

    @admin.display(description="last error")
    def whole_error(self, start: Any) -> str:
        """Show what the latest try ran into."""
        return shown.block(start.last_error) if start.last_error else "-"

    @admin.display(description="due")
    def next_try(self, start: Any) -> str:
        """Show when it is sent next, or when a sender's hold ends."""
        return shown.time_of(start.due_at)

    @admin.display(description="input")
    def shown_input(self, start: Any) -> str:
        """Show the input of the execution."""
        return shown.json_block(start.input)

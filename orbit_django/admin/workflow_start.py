"""Starts of workflows in the admin: what was asked for and what became of it."""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib import admin
from django.db.models import Q, QuerySet, Subquery
from django.db.models.functions import Left
from django.http import HttpRequest, HttpResponse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from orbit_django import starts
from orbit_django.admin import again, shown
from orbit_django.admin.lists import MOST_FOUND, WINDOW, WordFilter
from orbit_django.models import WorkflowStart
from orbit_django.payloads import cut, digest

Status = WorkflowStart.Status

DELIVER = again.Request(
    action="deliver_again",
    permission="orbit_django.redeliver_workflowstart",
    title="Send again",
    statuses=(Status.PENDING, Status.BLOCKED),
    what="unanswered start",
    consequence=(
        "Each is sent at once instead of at the end of its pause. Its execution id makes it exactly once: what the "
        "runtime has already is not started anew. What is being sent at this moment is left alone."
    ),
    act=starts.deliver_again,
)


class StartStatusFilter(WordFilter):
    """By status; what has no final answer is found by the index over the answers' times."""

    title = "status"
    parameter_name = "status__exact"
    words = Status.values
    orders: ClassVar = {Status.PENDING: ("-due_at", "-pk"), Status.BLOCKED: ("-settled_at", "-pk")}

    def kept(self, word: str) -> Q:
        """Return what a row must be."""
        if word == Status.PENDING:
            return Q(status=word, due_at__isnull=False)
        return Q(status=word, settled_at__isnull=word == Status.BLOCKED)


@admin.register(WorkflowStart)
class WorkflowStartAdmin(again.SendAgainAdmin):
    """Starts, newest first."""

    list_display = ("state", "which", "execution", "age", "tries", "trouble")
    list_filter = (StartStatusFilter,)
    actions = ("deliver_again",)
    requests = (DELIVER,)
    search_help_text = f"A whole execution id, or the beginning of one of the newest {WINDOW:,}."
    fieldsets = (
        (None, {"fields": ("state", "whole_workflow", "whole_id", "created_at", "settled_at")}),
        ("Delivery", {"fields": ("tries", "last_status", "whole_error", "next_try")}),
        ("Request", {"fields": ("shown_input",)}),
    )
    readonly_fields = (
        "state",
        "whole_workflow",
        "whole_id",
        "tries",
        "whole_error",
        "next_try",
        "shown_input",
        "sending_again",
    )

    def narrowed(self, rows: QuerySet[Any]) -> QuerySet[Any]:
        """Return the rows with the columns of the list, the boundless ones cut by the database."""
        narrow: QuerySet[Any] = rows.defer("input", "workflow", "execution_id", "last_error").annotate(
            head_workflow=Left("workflow", 200), head_id=Left("execution_id", 255), head_error=Left("last_error", 200)
        )
        return narrow

    def keys_of(self, term: str, using: str) -> list[int]:
        """Return the key of an execution, by index; else those of the newest whose ids begin so."""
        rows = WorkflowStart.objects.using(using)
        if keys := list(rows.filter(id_hash=digest(term)).values_list("pk", flat=True)):
            return keys
        last = Subquery(rows.order_by("-pk").values("pk")[:1])
        newest = rows.filter(execution_id__startswith=term, pk__gt=last - WINDOW).order_by("-pk")
        return list(newest.values_list("pk", flat=True)[: MOST_FOUND + 1])

    def action_checkbox(self, obj: Any) -> SafeString:
        """Name the row by what is loaded of it."""
        loaded = WorkflowStart(pk=obj.pk, workflow=obj.head_workflow, execution_id=obj.head_id)
        return super().action_checkbox(loaded)

    def has_redeliver_permission(self, request: HttpRequest) -> bool:
        """Return whether the user may have unanswered starts sent at once."""
        return request.user.has_perm(DELIVER.permission)

    @admin.action(description=DELIVER.title, permissions=["redeliver"])
    def deliver_again(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
        """Have the unanswered ones among the chosen starts sent at once."""
        return self.carry_out(request, queryset, DELIVER)

    def told(self, start: Any) -> str:
        """Return what a confirmation says of a start."""
        about = (self.which(start), self.execution(start), self.age(start), self.trouble(start))
        return format_html("{}, execution {}, {} old: {}", *about)

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
        """Show the execution, leading to all that is known about it."""
        return self.way_to(start.head_id, start, 40)

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
        return shown.HIDDEN if shown.hides_starts() else shown.json_block(start.input)

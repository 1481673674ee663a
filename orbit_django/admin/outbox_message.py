"""Outbox messages in the admin: what is owed to the runtime and what it answered."""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib import admin
from django.db.models import Q, QuerySet
from django.db.models.functions import Left
from django.http import HttpRequest, HttpResponse
from django.utils.html import format_html

from orbit_django import outbox
from orbit_django.admin import again, shown
from orbit_django.admin.lists import WordFilter, beginning
from orbit_django.admin.pages import records_of
from orbit_django.models import IdempotencyRecord, OutboxMessage
from orbit_django.payloads import cut

LISTED = ("record", "status", "kind", "token", "execution_id", "attempt", "attempts", "accepted", "created_at")
Status = OutboxMessage.Status

REQUEUE = again.Request(
    action="requeue_blocked",
    permission="orbit_django.requeue_outboxmessage",
    title="Requeue blocked messages",
    statuses=(Status.BLOCKED,),
    what="blocked message",
    consequence=(
        "Each is tried once more, the same bytes under the same token, by any worker of its server. Do it when what "
        "blocked them has been mended: otherwise they are blocked again."
    ),
    act=outbox.requeue,
)
DELIVER = again.Request(
    action="deliver_again",
    permission="orbit_django.redeliver_outboxmessage",
    title="Deliver again",
    statuses=(Status.PENDING, Status.BLOCKED),
    what="unanswered message",
    consequence=(
        "Each is sent at once instead of at the end of its pause, the same bytes under the same token, by any worker "
        "of its server. No handler runs. A result that the runtime has already is answered as a duplicate, which does "
        "no harm. What is being sent at this moment is left alone."
    ),
    act=outbox.deliver_again,
)


class MessageStatusFilter(WordFilter):
    """By status; what has no final answer is found by the indexes over the times."""

    title = "delivery"
    parameter_name = "status__exact"
    words = (*Status.values, shown.SUPERSEDED)
    orders: ClassVar = {Status.PENDING: ("-due_at", "-pk"), Status.BLOCKED: ("-settled_at", "-pk")}

    def kept(self, word: str) -> Q:
        """Return what a row must be; superseded is what was refused for a reason that means no trouble."""
        if word in (shown.SUPERSEDED, Status.REFUSED):
            benign = outbox.superseded()
            return Q(status=Status.REFUSED) & (benign if word == shown.SUPERSEDED else ~benign)
        if word == Status.PENDING:
            return Q(status=word, due_at__isnull=False)
        return Q(status=word, settled_at__isnull=word == Status.BLOCKED)


class KindFilter(WordFilter):
    """By the call that is made."""

    title = "kind"
    parameter_name = "kind__exact"
    words = OutboxMessage.Kind.values


@admin.register(OutboxMessage)
class OutboxMessageAdmin(again.SendAgainAdmin):
    """Messages, newest first."""

    list_display = ("outcome", "state", "task", "execution", "attempt", "age", "tries", "answer")
    list_filter = (MessageStatusFilter, KindFilter)
    actions = ("requeue_blocked", "deliver_again")
    requests = (REQUEUE, DELIVER)
    joined = ("record",)
    fieldsets = (
        (None, {"fields": ("whole_outcome", "state", "task", "its_record", "whole_execution", "attempt")}),
        ("Answer", {"fields": ("accepted", "whole_reason", "whole_receipt", "last_status", "settled_at")}),
        (
            "Delivery",
            {"fields": ("tries", "whole_error", "next_try", "waits_for", "worker_id", "server", "created_at")},
        ),
        ("Request", {"fields": ("kind", "completion_id", "shown_body")}),
    )
    readonly_fields = (
        "whole_outcome", "state", "task", "its_record", "whole_execution", "tries", "whole_reason", "whole_error",
        "next_try", "waits_for", "whole_receipt", "shown_body", "sending_again",
    )  # fmt: skip

    def narrowed(self, rows: QuerySet[Any]) -> QuerySet[Any]:
        """Return the rows with the columns of the list, the boundless ones cut by the database."""
        kept = rows.only(*LISTED)
        narrow: QuerySet[Any] = kept.annotate(
            head_task=Left("record__task_name", 200),
            head_version=Left("record__contract_version", 50),
            head_reason=Left("reason", 200),
            head_error=Left("last_error", 200),
        )
        return narrow

    def found(self, term: str, using: str) -> Q:
        """Return how to find an execution or a key."""
        return beginning("execution_id", term, using) | Q(record_id__in=records_of(term, using))

    def has_requeue_permission(self, request: HttpRequest) -> bool:
        """Return whether the user may have blocked messages tried again."""
        return request.user.has_perm(REQUEUE.permission)

    def has_redeliver_permission(self, request: HttpRequest) -> bool:
        """Return whether the user may have unanswered messages sent at once."""
        return request.user.has_perm(DELIVER.permission)

    @admin.action(description=REQUEUE.title, permissions=["requeue"])
    def requeue_blocked(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
        """Have the blocked ones among the chosen messages tried once more."""
        return self.carry_out(request, queryset, REQUEUE)

    @admin.action(description=DELIVER.title, permissions=["redeliver"])
    def deliver_again(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
        """Have the unanswered ones among the chosen messages sent at once."""
        return self.carry_out(request, queryset, DELIVER)

    def told(self, message: Any) -> str:
        """Return what a confirmation says of a message."""
        about = (self.task(message), self.execution(message), self.age(message), self.answer(message))
        return format_html("{}, execution {}, {} old: {}", *about)

    @admin.display(description="record")
    def its_record(self, message: Any) -> str:
        """Lead to the record that is reported."""
        return self.link(message.record, cut(str(message.record), 120)) if message.record else "-"

    @admin.display(description="execution")
    def whole_execution(self, message: Any) -> str:
        """Lead to the execution."""
        return self.way_to(message.execution_id, message, 255)

    @admin.display(description="outcome")
    def outcome(self, message: Any) -> str:
        """Show what is reported."""
        return shown.label("failed" if message.kind == OutboxMessage.Kind.FAIL else "succeeded")

    @admin.display(description="outcome")
    def whole_outcome(self, message: Any) -> str:
        """Show what is reported, with the code of a failure."""
        if message.kind != OutboxMessage.Kind.FAIL:
            return self.outcome(message)
        return format_html("{}, {}", self.outcome(message), shown.code_of(outbox.text_of(message)))

    @admin.display(description="delivery")
    def state(self, message: Any) -> str:
        """Show where the message stands; refused for a benign reason, it was superseded."""
        return shown.label(shown.standing(message))

    @admin.display(description="task")
    def task(self, message: Any) -> str:
        """Show name and version of the task."""
        if message.record_id is None:
            return "-"
        if hasattr(message, "head_task"):
            return shown.named(message.head_task, message.head_version)
        return shown.named(message.record.task_name, message.record.contract_version, 255)

    @admin.display(description="tries")
    def tries(self, message: Any) -> int:
        """Show how often it was sent."""
        return int(message.attempts)

    @admin.display(description="answer or last error")
    def answer(self, message: Any) -> str:
        """Show what the runtime said; before it has, the beginning of what the latest try ran into."""
        text = "accepted" if message.accepted else shown.reason_of(message) or message.head_error
        return shown.sentence(shown.masked(text, [message.token]))

    @admin.display(description="reason")
    def whole_reason(self, message: Any) -> str:
        """Show why the runtime did not accept it."""
        return self._text(message, shown.reason_of(message))

    @admin.display(description="receipt")
    def whole_receipt(self, message: Any) -> str:
        """Show what the runtime acknowledged, where it does so in more than a word."""
        return shown.receipt_of(message) or "-"

    @admin.display(description="last error")
    def whole_error(self, message: Any) -> str:
        """Show what the latest try ran into."""
        return self._text(message, message.last_error)

    @admin.display(description="due")
    def next_try(self, message: Any) -> str:
        """Show when it is sent next, or when a sender's hold ends."""
        return shown.time_of(message.due_at)

    @admin.display(description="waits for")
    def waits_for(self, message: Any) -> str:
        """Show that the binding which tried it cannot carry it."""
        return f"another binding than {message.declined_by}" if message.declined_by else "-"

    @admin.display(description="body")
    def shown_body(self, message: Any) -> str:
        """Show the request body without its token."""
        record: IdempotencyRecord | None = message.record
        if record is not None and shown.is_hidden(record.task_name):
            return shown.HIDDEN
        return shown.json_block(outbox.text_of(message), [message.token])

    def _text(self, message: Any, text: str) -> str:
        return shown.block(shown.masked(text, [message.token])) if text else "-"

"""Outbox messages in the admin: what is owed to the runtime and what it answered."""

from __future__ import annotations

import logging
from typing import Any

from django.contrib import admin, messages
from django.db import router
from django.db.models import Q, QuerySet
from django.db.models.functions import Left
from django.http import HttpRequest

from orbit_django import outbox
from orbit_django.admin import shown
from orbit_django.admin.pages import LedgerAdmin, WordFilter, records_of
from orbit_django.models import IdempotencyRecord, OutboxMessage
from orbit_django.protocol import BENIGN_REASONS, Receipt

logger = logging.getLogger(__name__)

SUPERSEDED = "superseded"
LISTED = ("record", "status", "kind", "token", "execution_id", "attempt", "attempts", "accepted", "created_at")
Status = OutboxMessage.Status


class MessageStatusFilter(WordFilter):
    """By status; what has no final answer is found by the index over the answers' times."""

    title = "status"
    parameter_name = "status__exact"
    words = (*Status.values, SUPERSEDED)

    def kept(self, word: str) -> Q:
        """Return what a row must be; superseded ones are refused, for a reason that means no trouble."""
        if word == SUPERSEDED:
            benign = Q()
            for reason in BENIGN_REASONS:
                benign |= Q(reason__startswith=reason)
            return Q(status=Status.REFUSED) & benign
        return Q(status=word, settled_at__isnull=word in (Status.PENDING, Status.BLOCKED))


class KindFilter(WordFilter):
    """By the call that is made."""

    title = "kind"
    parameter_name = "kind__exact"
    words = OutboxMessage.Kind.values


@admin.register(OutboxMessage)
class OutboxMessageAdmin(LedgerAdmin):
    """Messages, newest first."""

    list_display = ("state", "task", "execution", "age", "tries", "answer", "kind", "attempt")
    list_filter = (MessageStatusFilter, KindFilter)
    actions = ("requeue_blocked",)
    fieldsets = (
        (None, {"fields": ("state", "kind", "task", "record", "execution_id", "attempt")}),
        ("Answer", {"fields": ("accepted", "whole_reason", "last_status", "settled_at")}),
        ("Delivery", {"fields": ("tries", "whole_error", "next_try", "worker_id", "server", "created_at")}),
        ("Request", {"fields": ("shown_body",)}),
    )
    readonly_fields = ("state", "task", "tries", "whole_reason", "whole_error", "next_try", "shown_body")

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

    def found(self, term: str, rows: QuerySet[Any]) -> tuple[Q, Q]:
        """Return how to find an execution or a key."""
        by_index = Q(execution_id=term) | Q(record_id__in=records_of(term, rows.db))
        return by_index, Q(execution_id__startswith=term) | Q(record__idempotency_key=term)

    def has_requeue_permission(self, request: HttpRequest) -> bool:
        """Return whether the user may have blocked messages sent again: the permission to change them."""
        return request.user.has_perm("orbit_django.change_outboxmessage")

    @admin.action(description="Requeue blocked messages", permissions=["requeue"])
    def requeue_blocked(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        """Have the blocked ones among the chosen messages sent again."""
        keys = list(queryset.filter(status=Status.BLOCKED).values_list("pk", flat=True))
        count = outbox.requeue(router.db_for_write(OutboxMessage), keys)
        logger.info("blocked messages were requeued", extra={"count": count, "user": request.user.pk})
        text = f"{count} blocked message(s) will be sent again by a worker or by orbit_outbox flush."
        self.message_user(request, text, messages.SUCCESS if count else messages.WARNING)

    @admin.display(description="status")
    def state(self, message: Any) -> str:
        """Show where the message stands; refused for a benign reason, it was superseded."""
        return shown.label(SUPERSEDED if _is_superseded(message) else message.status)

    @admin.display(description="task")
    def task(self, message: Any) -> str:
        """Show name and version of the task."""
        if message.record_id is None:
            return "-"
        if hasattr(message, "head_task"):
            return shown.named(message.head_task, message.head_version)
        return shown.named(message.record.task_name, message.record.contract_version)

    @admin.display(description="tries")
    def tries(self, message: Any) -> int:
        """Show how often it was sent."""
        return int(message.attempts)

    @admin.display(description="answer or last error")
    def answer(self, message: Any) -> str:
        """Show what the runtime said; before it has, the beginning of what the latest try ran into."""
        text = "accepted" if message.accepted else message.head_reason or message.head_error
        return shown.sentence(shown.masked(text, [message.token]))

    @admin.display(description="reason")
    def whole_reason(self, message: Any) -> str:
        """Show why the runtime did not accept it."""
        return self._text(message, message.reason)

    @admin.display(description="last error")
    def whole_error(self, message: Any) -> str:
        """Show what the latest try ran into."""
        return self._text(message, message.last_error)

    @admin.display(description="due")
    def next_try(self, message: Any) -> str:
        """Show when it is sent next, or when a sender's hold ends."""
        return shown.time_of(message.due_at)

    @admin.display(description="body")
    def shown_body(self, message: Any) -> str:
        """Show the request body without its token."""
        record: IdempotencyRecord | None = message.record
        if record is not None and shown.is_hidden(record.task_name):
            return shown.HIDDEN
        return shown.json_block(outbox.text_of(message), [message.token])

    def _text(self, message: Any, text: str) -> str:
        return shown.block(shown.masked(text, [message.token])) if text else "-"


def _is_superseded(message: Any) -> bool:
    reason = message.head_reason if hasattr(message, "head_reason") else message.reason
    return message.status == Status.REFUSED and Receipt(False, reason).is_benign

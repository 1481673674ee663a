"""The page of one execution: its steps, and everything that is on record about them in the order of time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db.models import F, Model, QuerySet
from django.db.models.functions import Left
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse

from orbit_django.admin import databases, shown
from orbit_django.admin.pages import trail
from orbit_django.admin.timeline import Event, events
from orbit_django.models import Effect, IdempotencyRecord, OutboxMessage, WorkflowStart
from orbit_django.payloads import cut, digest, storable

MOST_RECORDS = 100
MOST_ROWS = 300  # messages, and effects
LOOKED_AT = 4_000  # characters of a text that are loaded; fewer are shown, so that no token is cut in two
SHOWN = 1_500


class ExecutionPage:
    """Shows what the tables that the user may look at know about an execution."""

    def __init__(self, pages: Any) -> None:
        self._site: admin.AdminSite = pages.admin_site
        self._opts = pages.opts

    def show(self, request: HttpRequest) -> HttpResponse:
        """Show the execution that the address names."""
        models: tuple[type[Model], ...] = (IdempotencyRecord, OutboxMessage, Effect, WorkflowStart)
        seen = {model for model in models if _may_view(request, model)}
        if not seen:
            raise PermissionDenied
        using, name = databases.chosen(request), request.GET.get("id", "")
        short = storable(name, 255)
        records = list(_records(short, using)) if IdempotencyRecord in seen else []
        messages = list(_messages(short, using)) if OutboxMessage in seen else []
        effects = list(_effects(short, using)) if Effect in seen else []
        start = _start(name, using) if WorkflowStart in seen else None
        told = events(records, messages, effects, start, _others(messages, short, using))
        context = {
            **self._site.each_context(request),
            "title": f"Execution {cut(name, 80)}",
            "opts": self._opts,
            **trail(self._site, self._opts, (f"Execution {name}", "")),
            "name": cut(name, 300),
            "others": [
                (other, databases.execution_of(self._site, name, other))
                for other in databases.in_use()
                if other != using
            ],
            "workflow": records[0].workflow if records else start.head_workflow if start else "",
            "steps": [self._step(record, messages) for record in reversed(records)],
            "lines": [self._line(event) for event in told],
            "is_cut": len(records) == MOST_RECORDS or MOST_ROWS in (len(messages), len(effects)),
        }
        request.current_app = self._site.name
        return TemplateResponse(request, "admin/orbit_django/execution.html", context)

    def _step(self, record: Any, messages: list[Any]) -> dict[str, Any]:
        tokens = [row.token for row in messages if row.record_id == record.pk]
        text = record.head_output if record.head_output is not None else record.head_error
        is_hidden = text and shown.is_hidden(record.head_task)
        outcome = shown.HIDDEN if is_hidden else shown.excerpt(text, tokens, SHOWN) if text else "-"
        return {
            "state": shown.label(record.status),
            "address": databases.address_of(self._site, record),
            "step": record.step_id or "-",
            "kind": record.step_kind,
            "task": shown.named(record.head_task, record.head_version),
            "key": shown.cell(record.head_key, 40),
            "attempt": record.attempt,
            "claims": record.generation,
            "redeliveries": record.redeliveries,
            "outcome": outcome,
        }

    def _line(self, event: Event) -> dict[str, Any]:
        return {
            "at": event.at,
            "state": shown.label(event.state),
            "what": event.what,
            "why": event.why,
            "who": event.who,
            "address": databases.address_of(self._site, event.row),
        }


def _may_view(request: HttpRequest, model: type[Model]) -> bool:
    return request.user.has_perm(f"{model._meta.app_label}.view_{model._meta.model_name}")


def _records(name: str, using: str) -> QuerySet[Any]:
    rows = IdempotencyRecord.objects.using(using).filter(execution_id=name).order_by("-pk")
    wide = ("task_name", "contract_version", "idempotency_key", "output", "error", "input_hash", "key_hash", "owner")
    return rows.defer(*wide).annotate(
        head_task=Left("task_name", 200),
        head_version=Left("contract_version", 50),
        head_key=Left("idempotency_key", 200),
        head_output=Left("output", LOOKED_AT),
        head_error=Left("error", LOOKED_AT),
    )[:MOST_RECORDS]


def _others(messages: list[Any], name: str, using: str) -> Iterable[Any]:
    """Return the first messages that other executions have under the same keys."""
    records = {row.record_id for row in messages} - {None}
    if not records:
        return ()
    rows = OutboxMessage.objects.using(using).filter(record_id__in=records).exclude(execution_id=name)
    return _heads(rows.select_related("record").order_by("pk"))


def _messages(name: str, using: str) -> QuerySet[Any]:
    rows = OutboxMessage.objects.using(using).filter(execution_id=name)
    return _heads(rows.select_related("record").order_by("-pk"))


def _heads(rows: QuerySet[Any]) -> QuerySet[Any]:
    """Return so many rows that a page can show, with no more of their long texts."""
    wide = ("output", "error", "task_name", "idempotency_key", "contract_version", "history")
    found: QuerySet[Any] = rows.defer("body", "reason", "last_error", *(f"record__{field}" for field in wide)).annotate(
        head_task=Left("record__task_name", 200),
        head_body=Left("body", LOOKED_AT),
        head_reason=Left("reason", 500),
        head_error=Left("last_error", 500),
    )[:MOST_ROWS]
    return found


def _effects(name: str, using: str) -> QuerySet[Any]:
    rows = Effect.objects.using(using).filter(record__execution_id=name).order_by("-pk")
    return rows.defer("result", "error").annotate(step=F("record__step_id"))[:MOST_ROWS]


def _start(name: str, using: str) -> Any:
    rows = WorkflowStart.objects.using(using).filter(id_hash=digest(name)).defer("input", "workflow", "last_error")
    return rows.annotate(head_workflow=Left("workflow", 200), head_error=Left("last_error", 500)).first()

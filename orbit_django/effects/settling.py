"""What a person says of an effect that is open, and what follows from it for the step, as far as it is known here."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

from django.db import transaction
from django.utils import timezone

from orbit_django import idempotency
from orbit_django.dialects import dialect_of
from orbit_django.exceptions import PayloadError
from orbit_django.models import Effect, IdempotencyRecord, OutboxMessage
from orbit_django.payloads import compact, cut, digest, effect_key, plain, storable
from orbit_django.protocol import Kind

Status = Effect.Status
WHEN = "settle it when it has ended, or CLAIM_SECONDS after its process died"
NEWEST = 10_000  # so many effects are looked through for an earlier result

DONE = "The step has a stored success, which stays: nothing follows."
FINAL = "The step has failed with {code}, for good: the runtime does not ask again by itself."
SILENT = (
    "No failure of attempt {attempt} was reported: the runtime delivers it again, unless it has ended the execution."
)
UNTOLD = (
    "The runtime has not answered the failure of attempt {attempt} yet, and then asks again only while the step has"
    " attempts left."
)
TOLD = (
    "The runtime was told that attempt {attempt} failed{answer}, and asks again only while the step has attempts left."
)
OWN_KEY = (
    " When it asks no more, do not start the workflow again: the key {key} belongs to this execution, and another one"
    " would call every effect once more. The page how-to/stuck of the documentation says how to do what is left."
)
SHARED_KEY = (
    " When it asks no more, and every step of the workflow has its key from the input, as this one may have {key},"
    " start it under another execution id with the same input: its step goes by this then. Otherwise do not start it"
    " again; see the page how-to/stuck of the documentation."
)


def settle(effect: Effect, *, result: str | None, settled_by: str) -> str:
    """Say what became of an open effect: it happened, with this JSON text as result, or (None) it did not.

    What a person said before is corrected in the same way, until a success of the step stands on it. The stored
    failure of the attempt that met it is cleared, so that the next delivery goes on accordingly. Returns, for people,
    what follows for the step. Raises ValueError when the effect is not open any more, when a run of its
    step goes on, or when the text is no JSON.
    """
    using = effect._state.db or "default"
    text = None if result is None else read_result(result)
    changes = {
        "status": Status.NOT_HAPPENED if text is None else Status.FINISHED,
        "result": text,
        "settled_by": storable(settled_by, 255),
        "finished_at": timezone.now(),
        "owner": "",
    }
    with dialect_of(using).writing(), transaction.atomic(using):
        owner = idempotency.live_owner(effect.record_id, using)  # the record first, as a run locks them
        rows = Effect.objects.using(using).open().filter(pk=effect.pk)
        if owner and rows.filter(status=Status.STARTED, owner=owner).exists():
            raise ValueError(f"the run that calls {effect.name!r} still holds its claim; {WHEN}")
        if not rows.update(**changes):
            _correct(effect, using, owner, changes)
        told = _sequel(IdempotencyRecord.objects.using(using).get(pk=effect.record_id))
        idempotency.reopen(effect.record_id, using)
    return told


def _correct(effect: Effect, using: str, owner: str, changes: dict[str, Any]) -> None:
    """Change what a person said, under the lock of the record; raise ValueError where something may stand on it."""
    present = Effect.objects.using(using).select_related("record").filter(pk=effect.pk).first()
    if present is None or not present.settled_by:
        raise ValueError(f"the effect {effect.name!r} is not open any more")
    if not is_correctable(present):
        raise ValueError(f"the effect {effect.name!r} is not open any more: a stored success of its step went by it")
    if owner:
        raise ValueError(f"a run that goes by what was said of {effect.name!r} holds its claim; correct it afterwards")
    idempotency.let_go(effect.record_id, using)
    Effect.objects.using(using).filter(pk=effect.pk).update(**changes)


def is_correctable(effect: Effect) -> bool:
    """Return whether a person said what became of it, and no success of its step stands on that."""
    return bool(effect.settled_by) and effect.record.status != IdempotencyRecord.Status.SUCCEEDED


def key_of(effect: Effect) -> str:
    """Return what ``ctx.effect_key`` gives for the effect's name; "" where the rows do not hold all of it."""
    record = effect.record
    parts = (record.task_name, record.step_kind, record.idempotency_key)
    is_whole = digest("effect", effect.name) == effect.name_hash and digest(*parts) == record.key_hash
    return effect_key(*parts, effect.name) if is_whole else ""


def earlier_shape(effect: Effect) -> str:
    """Return of what form the latest result was that a call of this effect brought, among the newest; "" for none."""
    rows = Effect.objects.using(effect._state.db or "default")
    newest = rows.order_by("-pk").values_list("pk", flat=True).first() or 0
    same = rows.filter(pk__gt=newest - NEWEST, name_hash=effect.name_hash, record__task_name=effect.record.task_name)
    found = same.filter(status=Status.FINISHED, settled_by="").order_by("-pk").values_list("result", flat=True).first()
    return shape_of(found) if found else ""


def shape_of(text: str) -> str:
    """Return of what form a JSON text is, without its values: ``{"charge": text}``."""
    return cut(_shape(json.loads(text)), 500)


def _shape(value: Any, depth: int = 0) -> str:
    if isinstance(value, (dict, list)) and depth == 3:
        return "…"
    if isinstance(value, dict):
        inner = [f"{compact(name)}: {_shape(each, depth + 1)}" for name, each in sorted(value.items())[:20]]
        return f"{{{', '.join(inner)}}}"
    if isinstance(value, list):
        return f"[{_shape(value[0], depth + 1)}, …]" if value else "[]"
    words = {str: "text", bool: "true or false", int: "number", float: "number"}
    return words.get(type(value), "null")


def read_result(text: str) -> str:
    """Return what a person gives as the result of a call in the form that is stored; ValueError for what is no JSON."""
    try:
        return compact(plain(json.loads(text)))
    except PayloadError as error:
        raise ValueError(str(error)) from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def discard(using: str, records: Collection[int], *, is_dry_run: bool = False) -> int:
    """Remove the effects of records that are about to go, or only count them; return how many."""
    rows = Effect.objects.using(using).filter(record_id__in=records)
    return rows.count() if is_dry_run else rows._raw_delete(using)


def _sequel(record: IdempotencyRecord) -> str:
    """Return what follows for the step of a record; how many attempts it has left is known to the runtime alone."""
    if record.status == IdempotencyRecord.Status.SUCCEEDED:
        return DONE
    failure = json.loads(record.error or "{}")
    code = failure.get("error_code", "")
    is_final = not failure.get("retryable", True)
    return (FINAL.format(code=code) if is_final else _reported(record)) + _restart(record)


def _reported(record: IdempotencyRecord) -> str:
    reports = OutboxMessage.objects.using(record._state.db).filter(record=record.pk, kind=Kind.FAIL)
    report = reports.filter(attempt=record.attempt, execution_id=record.execution_id).order_by("pk").last()
    if report is None:
        return SILENT.format(attempt=record.attempt)
    if report.status not in OutboxMessage.ANSWERED:
        return UNTOLD.format(attempt=record.attempt)
    return TOLD.format(attempt=record.attempt, answer=f" ({report.reason})" if report.reason else "")


def _restart(record: IdempotencyRecord) -> str:
    is_own = record.idempotency_key == f"{record.execution_id}/{record.step_id}"
    return (OWN_KEY if is_own else SHARED_KEY).format(key=repr(cut(record.idempotency_key, 200)))

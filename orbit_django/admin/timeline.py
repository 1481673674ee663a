"""What happened to one execution, in order, and why each handler did or did not run.

Made of the rows alone. A delivery that was answered has its message; of one that only waited for another nothing is
kept, nor of the single tries to send a message, but for their number and what the latest ran into.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.utils.dateparse import parse_datetime

from orbit_django.admin import shown
from orbit_django.models import Effect, IdempotencyRecord, OutboxMessage, WorkflowStart
from orbit_django.protocol import Code, Kind

RAN = "the handler ran"
FIRST = "it was the first delivery that asked for this key"
TAKEN_OVER = "an earlier delivery under this key ended without an outcome; this one took it over (claim {})"
AMONG = "it left the first outcome of this key; there were {} claims for {} outcomes, the others ended without one"
NEXT = "the attempt before had failed, and this was a later one"
OTHERS = "another execution had failed under this key, which lets this one run"
OPENED = "the failure stored for this attempt had been cleared, or its process had died"
REPLAYED = "answered from the record, the handler did not run"
NOT_RUN = {
    Code.IDEMPOTENCY_CONFLICT: (
        "conflict, nothing ran",
        "the key was used before with another input or contract version",
    ),
    Code.DELIVERY_LIMIT: (
        "poison, the handler did not run",
        "too many runs of this attempt had ended with their process",
    ),
}
POISON = NOT_RUN[Code.DELIVERY_LIMIT]


@dataclass(frozen=True, slots=True)
class Event:
    """One line of the page."""

    at: datetime | None  # None: it goes on
    state: str
    what: str
    why: str = ""
    who: str = ""
    row: Any = None


def events(
    records: Iterable[Any], messages: list[Any], effects: Iterable[Any], start: Any, others: Iterable[Any] = ()
) -> list[Event]:
    """Return what happened, the oldest first and what goes on last.

    ``others`` are messages of other executions under the same keys, which are not told of but explain those that are.
    """
    found = [event for record in records for event in _of_record(record)]
    found += [event for effect in effects for event in _of_effect(effect)]
    ways = _ways(sorted([*messages, *others], key=lambda row: (row.created_at, row.pk)))  # a key may be drawn early
    found += [event for message in messages for event in _of_message(message, *ways[message.pk])]
    found += _of_start(start) if start else ()
    return sorted(found, key=lambda event: (event.at is None, event.at.timestamp() if event.at else 0.0))


def _of_start(start: Any) -> Iterator[Event]:
    status = WorkflowStart.Status
    yield Event(start.created_at, "start", f"Start of {start.head_workflow} asked for", "start_on_commit", row=start)
    tries = _tries(start.attempts, start.head_error)
    if start.settled_at is None:
        yield Event(None, start.status, "The start has no answer yet", tries, row=start)
    elif start.status == status.STARTED:
        yield Event(start.settled_at, start.status, "The runtime has the execution", tries, row=start)
    else:
        yield Event(start.settled_at, start.status, "The runtime refused the start", tries, row=start)


def _of_record(record: Any) -> Iterator[Event]:
    step = f"{record.step_id or 'step'}: {record.head_task}"
    yield Event(record.created_at, "claimed", f"{step}, key claimed", "no record of this key existed", row=record)
    for run in _history(record.history):
        why = "counted, in case its process does not survive it"
        yield Event(run[0], "redelivery", f"{step}, a redelivery began a run", why, run[1], record)
    if record.finished_at is not None:
        what = f"{step}, outcome of attempt {record.attempt} stored"
        why = "final: no later delivery runs the handler" if record.status == "succeeded" else "a later attempt may run"
        yield Event(record.finished_at, record.status, what, why, record.worker_id, record)
    elif record.status == IdempotencyRecord.Status.RUNNING:
        what = f"{step}, attempt {record.attempt} has no outcome"
        yield Event(None, record.status, what, _why_open(record), record.worker_id if record.owner else "", record)


def _why_open(record: Any) -> str:
    if not record.owner:  # somebody said what became of an effect, or a claim was given back
        return "no run holds it: the next delivery runs the handler, if the runtime asks again"
    until = f"its claim ends {shown.time_of(record.lease_ms)} unless it is renewed; " if record.lease_ms else ""
    return f"{until}when its process has died, the next delivery takes over; a delivery before that waits"


def _of_effect(effect: Any) -> Iterator[Event]:
    name = f"{effect.step or 'step'}: effect {effect.name}"
    yield Event(effect.started_at, "effect", f"{name} began", "", row=effect)
    who = f"settled by {effect.settled_by}" if effect.settled_by else ""
    if effect.is_open:
        why = "nobody knows whether it happened; it is not called again before somebody says so"
        why = why if effect.status == Effect.Status.UNCERTAIN else "no result is kept yet"
        yield Event(None, effect.status, f"{name} is open", why, row=effect)
    elif effect.status == Effect.Status.FINISHED:
        why = "a later run gets the stored result without a call"
        yield Event(effect.finished_at, effect.status, f"{name} finished", why, who, effect)
    else:
        moment = effect.finished_at or effect.started_at
        yield Event(moment, effect.status, f"{name} did not happen", "a later run calls it", who, effect)


def _of_message(message: Any, what: str, why: str) -> Iterator[Event]:
    code = f", {shown.code_of(message.head_body)}" if message.kind == Kind.FAIL else ""
    step = f"{message.record.step_id or 'step'}: " if message.record else ""
    yield Event(
        message.created_at,
        "delivery",
        f"{step}attempt {message.attempt} delivered; {what}; reported as {message.kind}{code}",
        why,
        message.worker_id,
        message,
    )
    error = "" if message.status == OutboxMessage.Status.DELIVERED else message.head_error
    tries = _tries(message.attempts, shown.masked(error, [message.token]), message.last_status)
    state = shown.standing(message)
    if message.settled_at is None:
        waits = "waits for a person, another credential or a new worker" if state == "blocked" else "has no answer yet"
        yield Event(None, state, f"{step}the report of attempt {message.attempt} {waits}", tries, row=message)
        return
    reason = shown.masked(shown.reason_of(message), [message.token])
    told = {"delivered": "accepted", "superseded": "not needed any more", "refused": "refused"}
    what = f"{step}the runtime's answer to the {message.kind} of attempt {message.attempt}: {told.get(state, state)}"
    yield Event(
        message.settled_at,
        state,
        what,
        "; ".join(filter(None, (reason, shown.receipt_of(message), tries))),
        row=message,
    )


def _ways(messages: list[Any]) -> dict[int, tuple[str, str]]:
    """Return how the outcome that each message reports came about, and why so."""
    seen: dict[Any, list[Any]] = {}
    found = {}
    for message in messages:
        before = seen.setdefault(message.record_id, [])
        found[message.pk] = _way(message, before) if message.record_id else _unrecorded(message)
        before.append(message)
    for message in messages:
        if found[message.pk] == (RAN, FIRST):
            ways = [found[row.pk] for row in seen[message.record_id]]
            found[message.pk] = RAN, _first(message.record, sum(way[0] == RAN or way == POISON for way in ways))
    return found


def _first(record: Any, outcomes: int) -> str:
    """Return why the first of the outcomes on record came about: claims beyond one for each ended without any."""
    is_open = record.status == IdempotencyRecord.Status.RUNNING and bool(record.lease_ms)
    claims = record.generation - is_open
    if claims <= outcomes:
        return FIRST
    return TAKEN_OVER.format(claims) if outcomes == 1 else AMONG.format(claims, outcomes)


def _way(message: Any, before: list[Any]) -> tuple[str, str]:
    """Return how one message came about, by those of its record before it."""
    code = shown.code_of(message.head_body)
    if message.kind == Kind.COMPLETE:
        stored = next((row for row in before if row.kind == Kind.COMPLETE), None)
        if stored is None:
            return _ran(message, before)
        whose = "" if stored.execution_id == message.execution_id else ", of another execution"
        return REPLAYED, f"the key has a stored success{whose}"
    if any(row.kind == Kind.COMPLETE and row.token_hash == message.token_hash for row in before):
        return "follows the refused success", "the step is to end instead of hanging; nothing ran"
    if code == Code.IDEMPOTENCY_CONFLICT:
        return NOT_RUN[Code.IDEMPOTENCY_CONFLICT]
    if any(_is_same_failure(row, message) for row in before):
        return REPLAYED, "this attempt has a stored failure"
    return POISON if code == Code.DELIVERY_LIMIT else _ran(message, before)


def _ran(message: Any, before: list[Any]) -> tuple[str, str]:
    outcomes = [row for row in before if shown.code_of(row.head_body) != Code.IDEMPOTENCY_CONFLICT]
    if not outcomes:
        return RAN, FIRST
    own = [row for row in outcomes if row.execution_id == message.execution_id]
    if not own:
        return RAN, OTHERS
    return RAN, NEXT if all(row.attempt < message.attempt for row in own) else OPENED


def _unrecorded(message: Any) -> tuple[str, str]:
    code = shown.code_of(message.head_body)
    why: dict[str, str] = {
        Code.UNKNOWN_TASK: "the worker that got it does not serve this task",
        Code.INVALID_INPUT: "its input, or another field of it, could not be read",
    }
    return "no record, nothing ran", why.get(code, "its outcome could not be recorded")


def _is_same_failure(row: Any, message: Any) -> bool:
    if row.kind != Kind.FAIL or (row.execution_id, row.attempt) != (message.execution_id, message.attempt):
        return False
    return bool(row.head_body.replace(row.token, "") == message.head_body.replace(message.token, ""))


def _tries(attempts: int, error: str, status: int | None = None) -> str:
    """Say how often something was sent and what came of it."""
    told = [f"{attempts} tries" if attempts > 1 else "", f"HTTP {status}" if status else "", error]
    return ", ".join(filter(None, told))


def _history(text: str) -> Iterator[tuple[datetime, str]]:
    for run in json.loads(text or "[]"):
        if moment := parse_datetime(str(run.get("at"))):
            yield moment, str(run.get("worker_id", ""))

"""What must hold after a schedule, whatever struck: looked up in the business rows, the ledger and the history."""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

from orbit_django.embedded.executions import Execution
from orbit_django.embedded.server import EmbeddedRuntime
from orbit_django.models import Effect, IdempotencyRecord, OutboxMessage
from tests.crash.proxy import Strike
from tests.crash.schedule import Schedule
from tests.testapp.models import Charge

SLACK_SECONDS = 0.05  # between what a handler writes down and what it stands for


@dataclass
class Evidence:
    """What was seen while a schedule ran; times are monotonic seconds."""

    plan: Schedule
    folder: Path
    bodies: list[tuple[str, bytes]] = field(default_factory=list)
    deaths: dict[int, float] = field(default_factory=dict)  # process -> when it was killed
    pauses: list[tuple[int, float, float]] = field(default_factory=list)  # process, from, to
    outages: list[tuple[float, float]] = field(default_factory=list)  # of the database
    commits: list[Strike] = field(default_factory=list)
    left: int = 0  # how many workers had not ended long after they were asked to

    def lines(self, file: str) -> list[dict[str, Any]]:
        """Return what handlers wrote down."""
        path = self.folder / file
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        return [json.loads(line) for line in text.splitlines()]


@dataclass
class Run:
    """One run of a handler."""

    key: str
    process: int
    begin: float
    end: float


def violations(evidence: Evidence, runtime: EmbeddedRuntime) -> list[str]:
    """Return one line for each thing that is not as promised."""
    with runtime.lock:
        executions = list(runtime.runtime.state.executions.values())
        events = list(runtime.runtime.store.events())
    found = [*_ends(evidence, executions), *_accepted_once(events), *same_bytes(evidence.bodies)]
    found += [*ledger(evidence.plan), *effects(evidence), *concurrent(evidence), *unended(evidence)]
    for execution in executions:
        found += _agreement(execution)
    return found + list(_false_failures(executions, events))


def _ends(evidence: Evidence, executions: list[Execution]) -> Iterator[str]:
    if len(executions) != len(evidence.plan.starts):
        yield f"{len(evidence.plan.starts)} executions were started, the runtime knows {len(executions)}"
    for one in executions:
        if one.status != "COMPLETED":
            yield f"execution {one.id} ended as {one.status}: {one.error}"


def unended(evidence: Evidence) -> Iterator[str]:
    if evidence.left:
        yield f"{evidence.left} workers have not ended when they were asked to"


def _accepted_once(events: list[Any]) -> Iterator[str]:
    counted = Counter((event.execution_id, event.data["step"]) for event in events if event.kind == "StepSucceeded")
    for step, count in counted.items():
        if count != 1:
            yield f"step {step} succeeded {count} times"
    accepted = Counter(OutboxMessage.objects.filter(accepted=True).values_list("token_hash", flat=True))
    if any(count > 1 for count in accepted.values()):
        yield "two reports of one token were accepted"


def same_bytes(bodies: list[tuple[str, bytes]]) -> Iterator[str]:
    by_token: dict[tuple[str, str], set[bytes]] = {}
    for call, body in bodies:
        token = fields_of(body).get("token")
        if token is None:
            yield f"{call}: no report at all, {body[:200]!r}"
            continue
        by_token.setdefault((call, str(token)), set()).add(body)
    for (call, _), different in by_token.items():
        if len(different) > 1:
            yield f"{call}: one token, {len(different)} different bodies, such as {sorted(different)[:2]}"


def fields_of(text: str | bytes | None) -> dict[str, Any]:
    """Return the JSON object that a package wrote which may be broken; nothing for anything else."""
    try:
        found = json.loads(text or "")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def ledger(plan: Schedule) -> Iterator[str]:
    for message in OutboxMessage.objects.undelivered():
        yield f"a {message.kind} of {message.execution_id} is still {message.status}: {message.last_error}"
    for record in IdempotencyRecord.objects.exclude(status=IdempotencyRecord.Status.SUCCEEDED):
        yield f"the record of {record.idempotency_key} is {record.status}"
    kept = set(IdempotencyRecord.objects.values_list("idempotency_key", flat=True))
    if kept != plan.keys:
        yield f"keys without a record: {plan.keys - kept}; records without a key: {kept - plan.keys}"
    for record in IdempotencyRecord.objects.succeeded():
        if fields_of(record.output).get("worker") != record.worker_id:
            yield f"the outcome of {record.idempotency_key} is not that of its last owner {record.worker_id}"


def effects(evidence: Evidence) -> Iterator[str]:
    rows = Counter(Charge.objects.values_list("key", flat=True))
    for key in evidence.plan.keys:
        wanted = 0 if "-effect-" in key else 1
        if rows[key] != wanted:
            yield f"{rows[key]} rows of {key} instead of {wanted}"
    if strange := set(rows) - evidence.plan.keys:
        yield f"rows that nobody asked for: {strange}"
    charged: dict[str, set[str]] = {}
    for call in evidence.lines("provider"):
        charged.setdefault(call["key"], set()).add(call["effect"])
    for key in (key for key in evidence.plan.keys if "-effect-" in key):
        if len(charged.get(key, ())) != 1:
            yield f"{len(charged.get(key, ()))} charges of {key} at the provider instead of 1"
    for effect in Effect.objects.exclude(status=Effect.Status.FINISHED):
        yield f"the effect {effect} is {effect.status}"


def _agreement(execution: Execution) -> Iterator[str]:
    """The runtime, the ledger and the business must know the same outcome."""
    for step in execution.steps.values():
        record = IdempotencyRecord.objects.filter(idempotency_key=step.idempotency_key).first()
        output = fields_of(record.output) or None if record else None
        if step.output is not None and step.output != output:
            yield f"{execution.id} was told {step.output}, the record of its key says {output}"
        row = Charge.objects.filter(key=step.idempotency_key).first()
        if row is not None and step.output is not None and row.nonce != step.output.get("nonce"):
            yield f"{execution.id} was told of the row {step.output.get('nonce')}, there is {row.nonce}"


def _false_failures(executions: list[Execution], events: list[Any]) -> Iterator[str]:
    """No attempt may fail of which, or before which, a success was committed."""
    keys = {(one.id, step.name): step.idempotency_key for one in executions for step in one.steps.values()}
    stored = dict(IdempotencyRecord.objects.succeeded().values_list("idempotency_key", "attempt"))
    for event in events:
        if event.kind == "StepAttemptFailed":
            key = keys[event.execution_id, event.data["step"]]
            if event.data["attempt"] >= stored.get(key, 1_000):
                text = f"attempt {event.data['attempt']} of {event.execution_id} failed: {event.data['error']['code']}"
                yield f"{text}; a success of attempt {stored[key]} is stored"


def concurrent(evidence: Evidence) -> Iterator[str]:
    """Two runs of one key at once are excused only by a paused process or a database that was away."""
    runs: dict[str, Run] = {}
    for line in evidence.lines("runs"):
        if "begin" in line:
            until = evidence.deaths.get(line["process"], float("inf"))
            runs[line["run"]] = Run(line["key"], line["process"], line["begin"], until)
        else:
            runs[line["run"]].end = line["end"]
    for one, two in combinations(sorted(runs.values(), key=lambda run: run.begin), 2):
        is_over = one.end - SLACK_SECONDS <= two.begin
        if one.key == two.key and not is_over and not _is_excused(evidence, one, two):
            yield f"two runs of {one.key} at once, in {one.process} and {two.process}, from {two.begin:.3f}"


def _is_excused(evidence: Evidence, one: Run, two: Run) -> bool:
    """Say whether the first lost its hold on the key, or the second had lost it before its handler began."""
    struck = [(commit.at, commit.at) for commit in evidence.commits if commit.struck.is_set()]
    both = (one.process, two.process)
    paused = [(begin, end) for process, begin, end in evidence.pauses if process in both]
    return any(begin <= two.begin and end >= one.begin for begin, end in [*evidence.outages, *struck, *paused])

"""Once per key: decide whether a handler runs, store its outcome.

Every function runs inside a transaction of its caller. ``begin`` must be the first thing in it: the claim decides
by inserting, so that two deliveries of one key can never both run, and it never waits inside the database.
"""

from __future__ import annotations

import json
from typing import Any

from django.db.models import F
from django.db.utils import DatabaseError
from django.utils import timezone

from orbit_django.dialects import dialect_of
from orbit_django.dialects.base import Claimed, Dialect, Finish
from orbit_django.exceptions import ClaimLostError, PayloadTooLargeError, TransactionEndedError
from orbit_django.models import IdempotencyRecord, OutboxMessage
from orbit_django.payloads import compact, counted, storable
from orbit_django.protocol import Code, Failure
from orbit_django.rows import made, new_mark
from orbit_django.verdicts import Busy, Claim, Conflict, Key, Poison, Stored, Verdict

Status = IdempotencyRecord.Status
RUNNING, SUCCEEDED, FAILED = (status.value for status in (Status.RUNNING, Status.SUCCEEDED, Status.FAILED))


def new_owner() -> str:
    """Return a mark that no other claim has."""
    return new_mark()


def begin(key: Key, *, owner: str, worker_id: str, lease_seconds: float | None = None) -> Verdict:
    """Claim the key, or say why not.

    Without a lease the claim lives as long as the open transaction; with one it is to be committed at once and
    ends by the database's clock. A claim that this ``owner`` made before, in a commit whose answer was lost, is
    recognised by its mark.
    """
    dialect = dialect_of(key.using)
    record = _fresh(key, owner, worker_id)
    match dialect.claim_guarded(record) if lease_seconds is None else dialect.claim(record, lease_seconds):
        case Claimed.NEW:
            return _claimed(record, key, lease_seconds)
        case Claimed.BUSY:
            return Busy()
    held = dialect.lock(key.hash)
    if held is None:
        return Busy()
    return _judge(key, held) or _take(key, held, dialect, record, lease_seconds)


def count_run(key: Key, *, owner: str, worker_id: str, limit: int) -> Poison | None:
    """Count a run that is about to begin on a redelivery; to be committed before the run.

    The count of runs that ended with their process is what is left of it when the next redelivery comes. Nothing is
    counted for a key that has an outcome or a live owner. Returns Poison when more than ``limit`` such runs are on
    record.
    """
    dialect = dialect_of(key.using)
    record = _fresh(key, owner, worker_id)
    record.redeliveries, record.history = 1, _noted("", worker_id)
    if dialect.claim(record, None) is Claimed.NEW:
        return None
    held = dialect.lock(key.hash)
    if held is None or _judge(key, held) is not None or _is_leased(held, dialect):
        return None
    is_same = held.status == Status.RUNNING and _is_of_same_step(key, held) and held.attempt == key.assignment.attempt
    count = held.redeliveries if is_same else 0
    if count > limit:
        return Poison(_poisoned(held, count))
    history = _noted(held.history if is_same else "", worker_id)
    changes = {"redeliveries": count + 1, "history": history, **_attempt_of(key)}
    if held.lease_ms is None:
        changes |= {"status": Status.RUNNING, "finished_at": None}
    IdempotencyRecord.objects.using(key.using).filter(pk=held.pk).update(**changes)
    return None


def discount_run(key: Key) -> None:
    """Take back a count: the run did not begin, or its process ended in order. Never waits for a run that goes on."""
    dialect = dialect_of(key.using)
    held = dialect.lock(key.hash)
    if held is None or (held.lease_ms or 0) > dialect.read_now_ms():
        return
    rows = IdempotencyRecord.objects.using(key.using).running().filter(pk=held.pk, redeliveries__gt=0)
    rows.update(redeliveries=F("redeliveries") - 1)


def finish(
    claim: Claim,
    *,
    output: str | None = None,
    error: str | None = None,
    report: OutboxMessage | None = None,
    is_last: bool = False,
) -> IdempotencyRecord:
    """Store the outcome under the claim: the JSON text of a success, or of a failure's fields.

    A ``report`` is inserted along, and has a key then, where the database can do both at once; ``is_last`` lets it be
    committed in the same breath.

    Raises TransactionEndedError when the claim does not hold any more: the handler ended the transaction, or
    another owner has taken the key over; PayloadTooLargeError when the database does not take so much at once.
    Nothing of the user's may run between this and the commit.
    """
    record = claim.record
    changes = {
        "status": SUCCEEDED if output is not None else FAILED,
        "output": output,
        "error": error,
        "lease_ms": None,
        "finished_at": timezone.now(),
    }
    dialect = dialect_of(claim.using)
    try:
        is_written = _write_outcome(claim, dialect, changes, report, is_last=is_last)
    except DatabaseError as refusal:
        if dialect.is_connection_lost(refusal) or dialect.is_transient(refusal) or dialect.has_ended():
            raise  # the last for what only the COMMIT finds out
        if dialect.is_too_large(refusal):
            raise PayloadTooLargeError(len(output or error or "")) from refusal
        raise TransactionEndedError(ENDED) from refusal
    if not is_written:
        raise TransactionEndedError(ENDED)
    for name, value in changes.items():
        setattr(record, name, value)
    return record


ENDED = (
    "the transaction of this task was ended, broken or rolled back while its handler ran: by a raw COMMIT or "
    "ROLLBACK, by a statement that commits implicitly, by a database error that was caught, or by closing the "
    "connection; with atomic=False a handler may do as it likes"
)


def _write_outcome(
    claim: Claim, dialect: Dialect, changes: dict[str, Any], report: OutboxMessage | None, *, is_last: bool
) -> bool:
    """Write it as long as the claim holds; return whether it did."""
    if report is not None:
        wanted = Finish(claim.record, changes, report, is_guarded=not claim.is_leased, is_last=is_last)
        done = dialect.finish_and_report(wanted)
        if done is not None:
            return done
    rows = IdempotencyRecord.objects.using(claim.using).running().filter(pk=claim.record.pk, owner=claim.owner)
    guard = None if claim.is_leased else dialect.check_guard()
    return (rows if guard is None else rows.filter(guard)).update(**changes) == 1


def fence(claim: Claim) -> None:
    """Raise ClaimLostError unless the claim holds; it then holds until the open transaction ends."""
    rows = IdempotencyRecord.objects.using(claim.using).running().select_for_update()
    if rows.filter(pk=claim.record.pk, owner=claim.owner).first() is None:
        raise ClaimLostError("another owner has taken the key over")


def reopen(record_id: int, using: str) -> None:
    """Clear a stored failure that was due to an open effect, so that the same attempt may run again."""
    rows = IdempotencyRecord.objects.using(using).failed().select_for_update()
    record = rows.filter(pk=record_id).first()
    if record is not None and json.loads(record.error or "{}").get("error_code") == Code.EFFECT_UNCERTAIN:
        rows.filter(pk=record_id).update(status=Status.RUNNING, error=None, owner="", lease_ms=0, finished_at=None)


def let_go(record_id: int, using: str) -> None:
    """End a claim whose time is over, so that a run that still goes on under it stores no outcome."""
    IdempotencyRecord.objects.using(using).running().filter(pk=record_id).update(owner="", lease_ms=0)


def extend(claims: list[Claim], lease_seconds: float) -> None:
    """Let claims live that long from now; a claim that was taken over stays with its new owner."""
    for claim in claims:
        dialect = dialect_of(claim.using)
        with dialect.writing():
            IdempotencyRecord.objects.using(claim.using).running().filter(pk=claim.record.pk, owner=claim.owner).update(
                lease_ms=dialect.now_ms(lease_seconds)
            )


def live_owner(record_id: int, using: str) -> str:
    """Lock a record for the open transaction; return the mark of its claim that still lives, or an empty text."""
    rows = IdempotencyRecord.objects.using(using).filter(pk=record_id)
    rows.update(owner=F("owner"))  # a write, since nothing less is a lock on every database
    held = rows.only("status", "owner", "lease_ms").get()
    return held.owner if _is_leased(held, dialect_of(using)) else ""


def _fresh(key: Key, owner: str, worker_id: str) -> IdempotencyRecord:
    seen = key.assignment
    return made(
        IdempotencyRecord,
        key_hash=key.hash,
        task_name=storable(seen.task_name),
        step_kind=str(seen.step_kind),
        idempotency_key=storable(seen.idempotency_key),
        contract_version=storable(seen.contract_version),
        input_hash=key.input_hash,
        status=RUNNING,
        attempt=seen.attempt,
        execution_id=storable(seen.execution_id, 255),
        step_id=storable(seen.step_id, 255),
        workflow=storable(seen.workflow, 255),
        owner=owner,
        worker_id=worker_id,
        created_at=timezone.now(),
    )


def _judge(key: Key, held: IdempotencyRecord) -> Verdict | None:
    """Return what a present record says; None when its handler may run."""
    if held.input_hash != key.input_hash or held.contract_version != storable(key.assignment.contract_version):
        return Conflict(held, _conflict(key, held))
    if held.status == Status.SUCCEEDED:
        return Stored(held)
    is_of_same = held.attempt >= key.assignment.attempt and _is_of_same_step(key, held)
    return Stored(held) if held.status == Status.FAILED and is_of_same else None


def _is_of_same_step(key: Key, held: IdempotencyRecord) -> bool:
    """Return whether a record was left by this very step: attempts of another that shares the key count anew."""
    return all(getattr(held, name) == value for name, value in _place_of(key).items())


def _place_of(key: Key) -> dict[str, Any]:
    seen = key.assignment
    named = {"execution_id": seen.execution_id, "step_id": seen.step_id, "workflow": seen.workflow}
    return {name: storable(text, 255) for name, text in named.items()}


def _attempt_of(key: Key) -> dict[str, Any]:
    """Return what says of a record which attempt it belongs to."""
    return {"attempt": key.assignment.attempt, **_place_of(key)}


def _take(
    key: Key, held: IdempotencyRecord, dialect: Dialect, wanted: IdempotencyRecord, lease_seconds: float | None
) -> Verdict:
    """Take a present record over, unless a lease of somebody else still runs."""
    if held.owner != wanted.owner and _is_leased(held, dialect):
        return Busy()
    changes = {
        "status": Status.RUNNING,
        **_attempt_of(key),
        "error": None,
        "owner": wanted.owner,
        "worker_id": wanted.worker_id,
        "generation": held.generation + 1,
        "finished_at": None,
        "lease_ms": None if lease_seconds is None else dialect.read_now_ms() + int(lease_seconds * 1000),
    }
    IdempotencyRecord.objects.using(key.using).filter(pk=held.pk).update(**changes)
    for name, value in changes.items():
        setattr(held, name, value)
    if lease_seconds is None:
        dialect.set_guard()
    return _claimed(held, key, lease_seconds)


def _is_leased(held: IdempotencyRecord, dialect: Dialect) -> bool:
    """Return whether a claim that was committed on its own still lives, or may be about to be renewed."""
    if held.status != Status.RUNNING or not held.lease_ms:
        return False
    return held.lease_ms >= dialect.read_now_ms() or dialect.has_waited()


def _noted(history: str, worker_id: str) -> str:
    runs = [*json.loads(history or "[]"), {"worker_id": worker_id, "at": timezone.now().isoformat()}]
    return compact(runs[-20:])


def _poisoned(held: IdempotencyRecord, count: int) -> Failure:
    return Failure(
        Code.DELIVERY_LIMIT,
        f"{counted(count, 'run')} of this attempt ended with their process; it is not run again",
        retryable=True,
        details={"redeliveries": count, "runs": json.loads(held.history or "[]")},
    )


def _claimed(record: IdempotencyRecord, key: Key, lease_seconds: float | None) -> Claim:
    return Claim(record, record.owner, key.using, is_leased=lease_seconds is not None)


def _conflict(key: Key, held: IdempotencyRecord) -> Failure:
    seen = key.assignment
    return Failure(
        Code.IDEMPOTENCY_CONFLICT,
        f"the key {seen.idempotency_key!r} of {seen.task_name} was used before with another input or contract version",
        retryable=False,
        details={
            "stored": {"input": held.input_hash, "contract_version": held.contract_version},
            "received": {"input": key.input_hash, "contract_version": seen.contract_version},
        },
    )

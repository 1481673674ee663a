"""Messages on their way: append, claim what is due, settle.

Nothing here touches the network. A message is held by one sender at a time, for longer than a call may take; what
a dead sender held falls due by itself.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from django.db import transaction
from django.db.models import F, Q
from django.utils import timezone

from orbit_django.dialects import dialect_of
from orbit_django.exceptions import RefusedError
from orbit_django.models import IdempotencyRecord, OutboxMessage, OutboxMessageQuerySet
from orbit_django.payloads import body_of, cut, digest, encode_failure, failure_body, storable
from orbit_django.protocol import Assignment, Code, Completion, Failure, Kind, Receipt
from orbit_django.rows import made, new_mark

HOLD_SECONDS = 15.0  # a sender's hold; a call takes at most 10 s
GRACE_SECONDS = 2.0  # how long a due message is left to the worker that earned it
LIMIT_TEXT = 2_000

Status = OutboxMessage.Status
PENDING, COMPLETE, FAIL = Status.PENDING.value, Kind.COMPLETE.value, Kind.FAIL.value


@dataclass(frozen=True, slots=True)
class Origin:
    """Who earns messages, for which runtime, and over which binding they are sent."""

    worker_id: str
    server: str
    binding: str = "any"


def append(
    assignment: Assignment, origin: Origin, *, using: str, record: IdempotencyRecord | None, error: str | None = None
) -> OutboxMessage:
    """Write the report of an outcome into the open transaction, held for the caller to send.

    ``error`` is a failure's fields as text; without it the report completes the token with the record's output.
    """
    return add(draft(assignment, origin, using=using, error=error), record, using)


def draft(assignment: Assignment, origin: Origin, *, using: str, error: str | None = None) -> OutboxMessage:
    """Return the report of an outcome as it will be written."""
    completion_id = str(uuid4()) if assignment.is_leased else ""
    return _held(
        using,
        token=assignment.token,
        token_hash=digest(assignment.token),
        completion_id=completion_id,
        kind=COMPLETE if error is None else FAIL,
        body=_failing(assignment.token, completion_id, error),
        attempt=assignment.attempt,
        execution_id=storable(assignment.execution_id, 255),
        worker_id=origin.worker_id,
        server=origin.server,
    )


def add(message: OutboxMessage, record: IdempotencyRecord | None, using: str) -> OutboxMessage:
    """Write a draft into the open transaction, unless it was written along with its record."""
    message.record = record
    if message._state.adding:
        message.save(using=using, force_insert=True)
    return message


def find(assignment: Assignment, using: str) -> OutboxMessage | None:
    """Return the report that this delivery already has: the commit that made it had no answer."""
    rows = OutboxMessage.objects.using(using).select_related("record")
    return rows.filter(token_hash=digest(assignment.token)).order_by("pk").first()


def text_of(message: OutboxMessage) -> str:
    """Return the exact report, the same for every try; without its proof once a leased one was answered."""
    if message.body and message.completion_id:
        return failure_body(message.token, message.body, message.completion_id)
    if message.body or message.record is None or message.record.output is None:
        return message.body
    return body_of(message.token, Completion(message.record.output), message.completion_id)


def claim_due(
    using: str, origin: Origin, limit: int, *, is_flush: bool = False, skip: Collection[int] = ()
) -> list[OutboxMessage]:
    """Take up to ``limit`` messages that are due at the origin's runtime, and hold them.

    What another worker earned is taken a little later than its own; what belongs to another identity is left to it,
    and what the origin's binding cannot carry to other bindings.
    ``is_flush`` takes what backs off as well, never what a sender holds; ``skip`` leaves these keys alone.
    """
    dialect = dialect_of(using)
    own = Q(worker_id=origin.worker_id)
    others = Q(due_at__lte=dialect.now_ms(-GRACE_SECONDS)) & ~Q(last_status=403)
    is_due = Q(due_at__lte=dialect.now_ms())
    if is_flush:
        is_due, others = is_due | Q(sender="", due_at__isnull=False), ~Q(last_status=403)
    rows = _waiting(using, origin).filter(is_due)
    wanted = rows.filter(own | others).exclude(pk__in=skip).order_by("due_at")
    found = list(wanted.values_list("pk", flat=True)[:limit])
    if not found:
        return []
    mark = new_mark()
    with dialect.writing():
        if dialect.has_waited():
            return []  # whoever holds them was kept from filing the answers; the next look is soon
        rows.filter(pk__in=sorted(found)).update(sender=mark, due_at=dialect.now_ms(HOLD_SECONDS))
    held = OutboxMessage.objects.using(using).select_related("record").filter(pk__in=found, sender=mark)
    return list(held.order_by("pk"))


def renew(message: OutboxMessage, seconds: float = HOLD_SECONDS) -> bool:
    """Hold a message anew for its sender, for 0 seconds to let go; return False when somebody else has taken it."""
    using = alias_of(message)
    with dialect_of(using).writing():
        rows = OutboxMessage.objects.using(using).pending().filter(pk=message.pk, sender=message.sender)
        return rows.update(due_at=dialect_of(using).now_ms(seconds)) == 1


def settle(message: OutboxMessage, receipt: Receipt) -> None:
    """File the runtime's final answer."""
    status = Status.DELIVERED if receipt.accepted else Status.REFUSED
    told = {"reason": storable(receipt.reason, LIMIT_TEXT), "receipt": storable(receipt.text, LIMIT_TEXT)}
    _close(message, status, accepted=receipt.accepted, **told)


def settle_accepted(using: str, keys: Collection[int]) -> None:
    """File that the runtime accepted these reports, of which none is leased, in one statement."""
    dialect = dialect_of(using)
    rows = OutboxMessage.objects.using(using).pending().filter(dialect.among(sorted(keys)))
    with dialect.writing():
        rows.update(
            status=Status.DELIVERED,
            due_at=None,
            sender="",
            accepted=True,
            reason="",
            settled_at=timezone.now(),
            attempts=F("attempts") + 1,
        )


def postpone(message: OutboxMessage, seconds: float, error: str) -> None:
    """Let go of a message that got no answer; it falls due again after that long."""
    due_at = dialect_of(alias_of(message)).now_ms(seconds)
    _write(message, due_at=due_at, sender="", last_error=storable(error, LIMIT_TEXT))


def leave_to_owner(message: OutboxMessage, refusal: RefusedError, text: str) -> None:
    """Keep a message pending that only the identity which earned it may send."""
    due_at = dialect_of(alias_of(message)).now_ms()
    _write(message, due_at=due_at, sender="", last_status=refusal.status, last_error=storable(text, LIMIT_TEXT))


def decline(message: OutboxMessage, origin: Origin, text: str) -> None:
    """Leave a message to senders over another binding than this one, which cannot carry it; that was no try."""
    using = alias_of(message)
    changes = {"declined_by": origin.binding, "last_error": storable(text, LIMIT_TEXT), "sender": ""}
    with dialect_of(using).writing():
        rows = OutboxMessage.objects.using(using).pending().filter(pk=message.pk)
        rows.update(due_at=dialect_of(using).now_ms(), **changes)


def block(message: OutboxMessage, refusal: RefusedError | None, text: str) -> None:
    """Set a message aside until a person, a new worker or a new credential tries it again."""
    changes = {"last_status": refusal and refusal.status, "last_error": storable(text, LIMIT_TEXT)}
    _write(message, status=Status.BLOCKED, due_at=None, sender="", **changes)


def refuse(message: OutboxMessage, refusal: RefusedError, text: str) -> OutboxMessage | None:
    """File a refusal of the report itself; return the small failure that is owed now, if any.

    A refused success is followed by a failure for the same token, so that the step ends. A failure that was too
    large is cut down and sent once more.
    """
    using = alias_of(message)
    is_too_large = refusal.status == 413
    if message.kind == Kind.FAIL and not (is_too_large and message.last_status != 413):
        _close(message, Status.REFUSED, last_status=refusal.status, reason=storable(text, LIMIT_TEXT))
        return None
    code = Code.RESULT_TOO_LARGE if is_too_large else Code.RESULT_REFUSED
    details = {"status": refusal.status, "code": refusal.code, "message": text}
    token = message.token  # the close forgets a proof
    with dialect_of(using).writing(), transaction.atomic(using):
        if message.kind == Kind.FAIL:
            body = _cut_down(message)
            _write(message, body=body, last_status=413, due_at=dialect_of(using).now_ms(HOLD_SECONDS))
            return message
        _close(message, Status.REFUSED, last_status=refusal.status, reason=storable(text, LIMIT_TEXT))
        failure = Failure(code, "the runtime refused the result of this task", retryable=False, details=details)
        return _follow(message, token, encode_failure(failure, 2_048))


def is_owed(using: str, origin: Origin) -> bool:
    """Return whether a message of this worker has no answer yet, held or not."""
    return _waiting(using, origin).filter(worker_id=origin.worker_id).exists()


def sendable_count(using: str, origin: Origin) -> int:
    """Return how many messages this runtime has not answered that anybody here may send, held ones included."""
    return _waiting(using, origin).filter(Q(worker_id=origin.worker_id) | ~Q(last_status=403)).count()


def _waiting(using: str, origin: Origin) -> OutboxMessageQuerySet:
    """Return what the runtime has not answered and the origin's binding can carry, due or held or not."""
    rows = OutboxMessage.objects.using(using).filter(due_at__isnull=False, server=origin.server)
    return rows.exclude(declined_by=origin.binding)


def alias_of(message: OutboxMessage) -> str:
    """Return the database that a message is in."""
    return message._state.db or "default"


def _write(message: OutboxMessage, **changes: object) -> None:
    """Change a message that is still pending, counting the try."""
    using = alias_of(message)
    with dialect_of(using).writing():
        rows = OutboxMessage.objects.using(using).filter(pk=message.pk, status=Status.PENDING)
        rows.update(attempts=F("attempts") + 1, **changes)
    for name, value in {**changes, "attempts": message.attempts + 1}.items():
        setattr(message, name, value)


def _close(message: OutboxMessage, status: str, **changes: object) -> None:
    """File a final answer; the proof of a lease has no further use."""
    changes |= {"token": ""} if message.completion_id else {}
    _write(message, status=status, due_at=None, sender="", settled_at=timezone.now(), **changes)


def _cut_down(message: OutboxMessage) -> str:
    """Return the failure without all that may be long."""
    fields = json.loads(message.body)
    failure = Failure(fields["error_code"], cut(fields["error_message"], 200), retryable=fields["retryable"])
    return _failing(message.token, message.completion_id, encode_failure(failure, 2_048))


def _failing(token: str, completion_id: str, error: str | None) -> str:
    """Return what is stored of a failure's body: all of it, or of a leased one all but what its columns hold."""
    if error is None or completion_id:
        return error or ""
    return failure_body(token, error)


def _follow(message: OutboxMessage, token: str, error: str) -> OutboxMessage:
    """Write the failure that follows a refused success; it is an outcome of its own."""
    using = alias_of(message)
    completion_id = str(uuid4()) if message.completion_id else ""
    following = _held(
        using,
        token=token,
        token_hash=message.token_hash,
        completion_id=completion_id,
        kind=FAIL,
        body=_failing(token, completion_id, error),
        attempt=message.attempt,
        execution_id=message.execution_id,
        worker_id=message.worker_id,
        server=message.server,
    )
    return add(following, message.record, using)


def _held(using: str, **fields: Any) -> OutboxMessage:
    """Return a new message that its writer is about to send."""
    return made(
        OutboxMessage,
        status=PENDING,
        due_at=dialect_of(using).now_ms(HOLD_SECONDS),
        sender=new_mark(),
        created_at=timezone.now(),
        **fields,
    )

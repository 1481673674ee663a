"""What can be said about a key when a delivery asks for it: frozen values that idempotency hands out."""

from __future__ import annotations

from dataclasses import dataclass

from orbit_django.models import IdempotencyRecord
from orbit_django.payloads import digest, fingerprint
from orbit_django.protocol import Assignment, Failure


@dataclass(frozen=True, slots=True)
class Key:
    """What identifies a record, and what must not differ under it (scope: task name, step kind and key)."""

    assignment: Assignment
    using: str  # database alias
    hash: str
    input_hash: str

    @classmethod
    def of(cls, assignment: Assignment, using: str) -> Key:
        """Return the key of a delivery."""
        scope = digest(assignment.task_name, assignment.step_kind, assignment.idempotency_key)
        return cls(assignment, using, scope, fingerprint(assignment.input))


@dataclass(frozen=True, slots=True)
class Claim:
    """The right to run the handler and to record its outcome, as long as ``owner`` is the record's mark."""

    record: IdempotencyRecord
    owner: str
    using: str
    is_leased: bool  # committed on its own, instead of living and dying with the transaction


@dataclass(frozen=True, slots=True)
class Stored:
    """The key has an outcome: it is reported again instead of running the handler."""

    record: IdempotencyRecord


@dataclass(frozen=True, slots=True)
class Conflict:
    """The key belongs to another input or contract version: nothing runs."""

    record: IdempotencyRecord
    failure: Failure


@dataclass(frozen=True, slots=True)
class Poison:
    """Too many runs of this attempt ended with their process: it is not run again."""

    failure: Failure


@dataclass(frozen=True, slots=True)
class Busy:
    """Somebody else runs this key right now; ask again later."""


Verdict = Claim | Stored | Conflict | Busy

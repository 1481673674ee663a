"""The words of the wire: frozen values that a worker and a runtime exchange.

Nothing here does anything but hold and check values. Clause numbers are those of ``docs/protocol.md``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from orbit_django.exceptions import PayloadError

VERSION = "0.1.0"
SDK = f"orbit-django/{VERSION}"  # how this package introduces itself (O052)
API_VERSION = "orbit-api/1"
RESERVED_PREFIX = "orbit."
MAX_WAIT_MS = 60_000
MAX_COUNT = 2**63 - 1
ASSIGNMENT_TEXTS = (
    "execution_id", "workflow", "workflow_version", "step_id", "task_name", "contract_version", "idempotency_key",
)  # fmt: skip

REASON_CONTRACT = "output violates the task contract"
REASON_STALE = "stale attempt"
REASON_DUPLICATE = "duplicate result"
REASON_UNKNOWN_TOKEN = "unknown token"  # noqa: S105  (the words of the wire)
BENIGN_REASONS = (REASON_DUPLICATE, REASON_STALE, REASON_UNKNOWN_TOKEN)


class Code(StrEnum):
    """Error codes that a worker makes itself (O186 and our own)."""

    UNHANDLED_EXCEPTION = "UNHANDLED_EXCEPTION"
    INVALID_INPUT = "INVALID_INPUT"
    INVALID_RESULT = "INVALID_RESULT"
    UNKNOWN_TASK = "UNKNOWN_TASK"
    CANCELLED = "CANCELLED"
    IDEMPOTENCY_CONFLICT = "IDEMPOTENCY_CONFLICT"
    EFFECT_UNCERTAIN = "EFFECT_UNCERTAIN"
    RESULT_TOO_LARGE = "RESULT_TOO_LARGE"
    RESULT_REFUSED = "RESULT_REFUSED"
    DELIVERY_LIMIT = "DELIVERY_LIMIT"


class Kind(StrEnum):
    """The two ways to report an attempt."""

    COMPLETE = "complete"
    FAIL = "fail"


class StepKind(StrEnum):
    """What sort of step a ``step_id`` names; it is part of a record's scope (O072)."""

    PLAIN = "plain"
    COMPENSATION = "compensation"
    HANDLER = "handler"

    @classmethod
    def of(cls, step_id: str) -> StepKind:
        """Return the kind: ``compensate:…``, ``on_<kind>:…``, or anything else."""
        if step_id.startswith("compensate:"):
            return cls.COMPENSATION
        if step_id.startswith("on_") and ":" in step_id:
            return cls.HANDLER
        return cls.PLAIN


@dataclass(frozen=True, slots=True, order=True)
class Contract:
    """A task that a worker announces (O052): its name and contract version, exactly as the runtime knows them."""

    task_name: str
    contract_version: str


@dataclass(frozen=True, slots=True)
class Registration:
    """What a worker says of itself when it opens a session (O052)."""

    worker_id: str
    runtime: str
    contracts: tuple[Contract, ...]
    sdk: str


@dataclass(frozen=True, slots=True)
class Session:
    """An open session (O054); both times are milliseconds."""

    session_id: str
    heartbeat_interval_ms: int
    session_timeout_ms: int
    warnings: tuple[str, ...] = ()

    @classmethod
    def from_wire(cls, body: object) -> Session:
        """Read a register answer; raise PayloadError when it is none."""
        fields = _object(body)
        return cls(
            session_id=_text(fields, "worker_session_id", is_filled=True),
            heartbeat_interval_ms=_count(fields, "heartbeat_interval_ms") or 5_000,
            session_timeout_ms=_count(fields, "session_timeout_ms") or 30_000,
            warnings=tuple(str(text) for text in _list(fields, "warnings")),
        )


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Stands for the input of an assignment that nobody can read, however often it is delivered.

    ``why`` says so to people; ``path`` is that of the field in question, which need not be the input itself.
    """

    why: str
    path: str = "$.input"

    @property
    def name(self) -> str:
        """The name of that field."""
        return self.path.removeprefix("$.")


@dataclass(frozen=True, slots=True)
class Assignment:
    """One delivery of one attempt of a step (O070 to O078)."""

    token: str = field(repr=False)  # a secret of this delivery: echoed in the report, shown to nobody
    execution_id: str
    workflow: str
    workflow_version: str
    step_id: str
    task_name: str
    contract_version: str
    input: Any = field(repr=False)  # a JSON value, or Unreadable
    idempotency_key: str
    attempt: int = 1
    redelivery: bool = False
    deadline_ms: int | None = None  # Unix epoch milliseconds by the runtime's clock
    timeout_ms: int | None = None  # milliseconds from the dispatch to the result
    is_leased: bool = False  # the token is the proof of a lease: it is kept no longer than the outcome needs it

    @property
    def contract(self) -> Contract:
        """The pair by which the handler is looked up."""
        return Contract(self.task_name, self.contract_version)

    @property
    def step_kind(self) -> StepKind:
        """The kind of step, part of the record's scope."""
        return StepKind.of(self.step_id)

    @classmethod
    def from_wire(cls, body: object) -> Assignment:
        """Read a poll answer; unknown fields are ignored (O012).

        Without a token that can be echoed it raises PayloadError. With one it can be answered, and has to be: whatever
        else is missing or of another type makes its input Unreadable (O347).
        """
        fields = _object(body)
        token = _secret(fields, "token")
        wrong: list[PayloadError] = []
        texts = {name: _or(wrong, _text, fields, name, "") for name in ASSIGNMENT_TEXTS}
        counts = {name: _or(wrong, _count, fields, name, None) for name in ("attempt", "deadline_ms", "timeout_ms")}
        if "input" not in fields:
            wrong.append(PayloadError("$.input", "missing"))
        return cls(
            token=token,
            **texts,
            input=Unreadable(wrong[0].text, wrong[0].path) if wrong else fields["input"],
            **counts | {"attempt": counts["attempt"] or 1},
            redelivery=fields.get("redelivery") is True,
        )


@dataclass(frozen=True, slots=True)
class Completion:
    """A success: ``output`` is the JSON text of an object, as it is stored and sent (O090)."""

    output: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed attempt (O100); ``details`` is any JSON value or None."""

    code: str
    message: str
    retryable: bool
    details: Any = field(default=None, repr=False)


Outcome = Completion | Failure


@dataclass(frozen=True, slots=True)
class CredentialLease:
    """A secret that a runtime lends to one attempt; nobody keeps it, and it ends by itself."""

    value: str = field(repr=False)
    provider_version: str | None = None
    expires_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Receipt:
    """The runtime's final answer to a report (O092); ``reason`` is empty when it was accepted."""

    accepted: bool
    reason: str = ""
    text: str = ""  # the whole acknowledgment, from a runtime that gives more of one: JSON text without a secret

    @property
    def is_benign(self) -> bool:
        """Whether a refusal only says that somebody else was first (O123 to O125)."""
        return self.reason.startswith(BENIGN_REASONS)

    @property
    def outcome(self) -> str:
        """One word for what became of the report."""
        if self.accepted:
            return "delivered"
        return "superseded" if self.is_benign else "not_accepted"

    @classmethod
    def from_wire(cls, body: object) -> Receipt:
        """Read an answer to complete or fail; raise PayloadError when it is none."""
        fields = _object(body)
        accepted = fields.get("accepted")
        if not isinstance(accepted, bool):
            raise PayloadError("$.accepted", "is not true or false")
        reason = fields.get("reason")
        return cls(accepted, "" if accepted or reason is None else str(reason))


def _object(body: object) -> Mapping[str, Any]:
    if not isinstance(body, Mapping):
        raise PayloadError("$", "is not an object")
    return body


def _text(fields: Mapping[str, Any], name: str, *, is_filled: bool = False) -> str:
    value = fields.get(name)
    if not isinstance(value, str) or (is_filled and not value):
        raise PayloadError(f"$.{name}", "is not a text" if value is not None else "missing")
    return value


def _or(wrong: list[PayloadError], read: Callable[..., Any], fields: Mapping[str, Any], name: str, none: Any) -> Any:
    """Return what a field holds; note why it cannot be read, and return what stands for nothing."""
    try:
        return read(fields, name)
    except PayloadError as error:
        wrong.append(error)
        return none


def _secret(fields: Mapping[str, Any], name: str) -> str:
    """Return a text that is to be kept and echoed as it is; it stays out of the error."""
    value = _text(fields, name, is_filled=True)
    if "\0" in value or (not value.isascii() and any("\ud800" <= char <= "\udfff" for char in value)):
        raise PayloadError(f"$.{name}", "holds a character that no request can carry")
    return value


def _count(fields: Mapping[str, Any], name: str) -> int | None:
    """Return a whole number, also one sent as a numeric text, no larger than a table can keep; None when absent."""
    value = fields.get(name)
    if value is None:
        return None
    try:
        return max(min(int(value), MAX_COUNT), -MAX_COUNT)
    except (TypeError, ValueError, OverflowError):
        raise PayloadError(f"$.{name}", "is not a whole number") from None


def _list(fields: Mapping[str, Any], name: str) -> list[Any]:
    value = fields.get(name)
    return value if isinstance(value, list) else []

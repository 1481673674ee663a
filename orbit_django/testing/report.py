"""What became of a task that a test ran: the report as the runtime would have been given it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from orbit_django import outbox
from orbit_django.models import IdempotencyRecord, OutboxMessage
from orbit_django.protocol import Kind


@dataclass(frozen=True, slots=True)
class TaskReport:
    """One outcome; ``output`` belongs to a success, the ``error_…`` fields to a failure."""

    kind: str  # "complete" or "fail"
    output: dict[str, Any] | None  # as the runtime gets it: plain JSON
    error_code: str
    error_message: str
    error_details: Any  # a JSON value; the traceback for UNHANDLED_EXCEPTION
    retryable: bool
    is_replayed: bool  # whether the stored outcome was sent and the handler did not run
    record: IdempotencyRecord | None
    message: OutboxMessage

    @property
    def is_success(self) -> bool:
        """Whether the task completed."""
        return self.kind == Kind.COMPLETE

    @classmethod
    def of(cls, message: OutboxMessage, *, is_replayed: bool = False) -> TaskReport:
        """Return what a message reports."""
        body = json.loads(outbox.text_of(message))
        return cls(
            kind=str(message.kind),
            output=body.get("output"),
            error_code=body.get("error_code", ""),
            error_message=body.get("error_message", ""),
            error_details=body.get("details"),
            retryable=body.get("retryable", False),
            is_replayed=is_replayed,
            record=message.record,
            message=message,
        )

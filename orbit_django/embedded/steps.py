"""The steps of executions, and what each event of their history makes of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from orbit_django.contracts import Unit


class StepStatus(StrEnum):
    """Where a step stands."""

    WAITING = "WAITING"  # for the outputs of other steps, or for the next decision
    QUEUED = "QUEUED"  # for a worker to poll
    DELAYED = "DELAYED"  # for the pause before a retry to pass
    IN_FLIGHT = "IN_FLIGHT"  # with a worker
    FANNED_OUT = "FANNED_OUT"  # its elements are steps of their own, and not all of them have ended
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


RESOLVED = frozenset({StepStatus.SUCCEEDED, StepStatus.FAILED, StepStatus.CANCELLED})


@dataclass(slots=True)
class Delivery:
    """One dispatch of one attempt, known by its token."""

    token: str
    attempt: int
    worker_id: str
    session_id: str  # which may be gone by now
    deadline_ms: int | None
    is_asked_to_stop: bool = False  # which is said once


@dataclass(slots=True)
class StepState:
    """One step of one execution, an element of its fan-out, its compensation, or a step of a handler."""

    name: str
    status: StepStatus = StepStatus.WAITING
    attempt: int = 0
    input: Any = None
    idempotency_key: str = ""
    is_redelivery: bool = False
    output: Any = None  # an object; a list of them once a fan-out has ended
    error: dict[str, Any] | None = None
    retry_at_ms: int = 0
    queue_deadline_ms: int | None = None  # until when a worker must have taken it
    items: list[Any] = field(default_factory=list)  # of a fan-out
    left: int = 0  # how many elements have not ended yet
    current: Delivery | None = None  # the delivery in flight
    deliveries: dict[str, Delivery] = field(default_factory=dict)  # all of them, by token
    unit: Unit = field(init=False)  # what the name says

    def __post_init__(self) -> None:
        self.unit = Unit.parse(self.name)

    @property
    def is_resolved(self) -> bool:
        """Say whether the step has its outcome."""
        return self.status in RESOLVED


def _scheduled(step: StepState, data: dict[str, Any]) -> None:
    step.status = StepStatus.QUEUED
    step.attempt = data["attempt"]
    step.input = data["input"]
    step.idempotency_key = data["idempotency_key"]
    step.is_redelivery = data["redelivery"]
    step.queue_deadline_ms = data.get("queue_deadline_ms")


def _dispatched(step: StepState, data: dict[str, Any]) -> None:
    step.status = StepStatus.IN_FLIGHT
    step.current = Delivery(
        data["token"], data["attempt"], data["worker_id"], data["worker_session"], data.get("deadline_ms")
    )
    step.deliveries[step.current.token] = step.current


def _fanned_out(step: StepState, data: dict[str, Any]) -> None:
    step.items = data["items"]
    step.left = len(step.items)
    step.status = StepStatus.FANNED_OUT
    if not step.items:
        step.output, step.status = [], StepStatus.SUCCEEDED


def _succeeded(step: StepState, data: dict[str, Any]) -> None:
    step.output = data["output"]
    _end(step, StepStatus.SUCCEEDED)


def _attempt_ended(step: StepState, data: dict[str, Any]) -> None:
    step.error = data.get("error", step.error)
    _end(step, StepStatus.WAITING)


def _retry(step: StepState, data: dict[str, Any]) -> None:
    step.status = StepStatus.DELAYED
    step.attempt = data["next_attempt"]
    step.retry_at_ms = data["fire_at_ms"]


def _failed(step: StepState, data: dict[str, Any]) -> None:
    step.error = step.error or data["error"]
    _end(step, StepStatus.FAILED)


def _end(step: StepState, status: StepStatus) -> None:
    step.status = status
    step.current = None


CHANGES: dict[str, Callable[[StepState, dict[str, Any]], None]] = {
    "StepScheduled": _scheduled,
    "StepDispatched": _dispatched,
    "StepFanOut": _fanned_out,
    "StepSucceeded": _succeeded,
    "StepAttemptFailed": _attempt_ended,
    "StepAttemptUncertain": _attempt_ended,
    "RetryScheduled": _retry,
    "StepFailed": _failed,
    "StepCancelled": lambda step, data: _end(step, StepStatus.CANCELLED),
    "StaleResultIgnored": lambda step, data: None,
}

"""Executions and their steps, as the events of their history make them.

Only ``Execution.apply`` changes a state, and only by an event; what should happen next is decided elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from orbit_django.contracts import Step, TaskContract, Workflow
from orbit_django.embedded.store import Event


class StepStatus(StrEnum):
    """Where a step stands."""

    WAITING = "WAITING"  # for the outputs of other steps, or for the next decision
    QUEUED = "QUEUED"  # for a worker to poll
    DELAYED = "DELAYED"  # for the pause before a retry to pass
    IN_FLIGHT = "IN_FLIGHT"  # with a worker
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


@dataclass(slots=True)
class StepState:
    """One step of one execution."""

    name: str
    status: StepStatus = StepStatus.WAITING
    attempt: int = 0
    input: Any = None
    idempotency_key: str = ""
    is_redelivery: bool = False
    output: dict[str, Any] | None = None
    error: dict[str, Any] | None = None
    retry_at_ms: int = 0
    current: Delivery | None = None  # the delivery in flight
    deliveries: dict[str, Delivery] = field(default_factory=dict)  # all of them, by token

    @property
    def is_resolved(self) -> bool:
        """Say whether the step has its outcome."""
        return self.status in RESOLVED


class Execution:
    """One run of a workflow."""

    def __init__(self, started: Event, definition: Workflow) -> None:
        self.id = started.execution_id
        self.workflow: str = started.data["workflow"]
        self.version: str = started.data["version"]
        self.definition_hash: str = started.data["definition_hash"]
        self.input: dict[str, Any] = started.data["input"]
        self.created_at_ms = started.at_ms
        self.definition = definition
        self.status = "RUNNING"
        self.output: dict[str, Any] | None = None
        self.error: dict[str, Any] | None = None
        self.failure: dict[str, Any] | None = None  # of the first step that failed
        self.cancel_reason: str | None = None
        self.steps = {declared.name: StepState(declared.name) for declared in definition.steps}

    @property
    def is_finished(self) -> bool:
        """Say whether nothing will change any more."""
        return self.status != "RUNNING"

    @property
    def is_aborting(self) -> bool:
        """Say whether the execution only waits for attempts in flight to end."""
        return self.failure is not None or self.cancel_reason is not None

    def declaration(self, step: StepState) -> Step:
        """Return what the workflow says of a step."""
        return next(declared for declared in self.definition.steps if declared.name == step.name)

    def contract(self, step: StepState) -> TaskContract:
        """Return the contract of the task that a step calls."""
        return self.definition.contracts[step.name]

    def in_flight(self) -> Iterator[tuple[StepState, Delivery]]:
        """Yield each step that a worker holds, with its delivery."""
        return ((step, step.current) for step in self.steps.values() if step.current)

    def scope(self) -> dict[str, dict[str, Any]]:
        """Return what expressions can see: the input, and the outputs of finished steps."""
        outputs = {step.name: step.output for step in self.steps.values() if step.output is not None}
        return {"input": self.input, **outputs}

    def apply(self, event: Event) -> None:
        """Take over what an event says."""
        if name := event.data.get("step"):
            step = self.steps.setdefault(name, StepState(name))
            _STEP_EVENTS[event.kind](step, event.data)
            if event.kind == "StepFailed" and self.failure is None:
                self.failure = event.data["error"]
        elif event.kind in _WORKFLOW_EVENTS:
            _WORKFLOW_EVENTS[event.kind](self, event.data)


def _scheduled(step: StepState, data: dict[str, Any]) -> None:
    step.status = StepStatus.QUEUED
    step.attempt = data["attempt"]
    step.input = data["input"]
    step.idempotency_key = data["idempotency_key"]
    step.is_redelivery = data["redelivery"]


def _dispatched(step: StepState, data: dict[str, Any]) -> None:
    step.status = StepStatus.IN_FLIGHT
    step.current = Delivery(
        data["token"], data["attempt"], data["worker_id"], data["worker_session"], data.get("deadline_ms")
    )
    step.deliveries[step.current.token] = step.current


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


_STEP_EVENTS: dict[str, Callable[[StepState, dict[str, Any]], None]] = {
    "StepScheduled": _scheduled,
    "StepDispatched": _dispatched,
    "StepSucceeded": _succeeded,
    "StepAttemptFailed": _attempt_ended,
    "StepAttemptUncertain": _attempt_ended,
    "RetryScheduled": _retry,
    "StepFailed": _failed,
    "StepCancelled": lambda step, data: _end(step, StepStatus.CANCELLED),
    "StaleResultIgnored": lambda step, data: None,
}


def _cancel_requested(execution: Execution, data: dict[str, Any]) -> None:
    execution.cancel_reason = data["reason"]


def _completed(execution: Execution, data: dict[str, Any]) -> None:
    execution.status = "COMPLETED"
    execution.output = data["output"]


def _ended_badly(status: str) -> Callable[[Execution, dict[str, Any]], None]:
    def apply(execution: Execution, data: dict[str, Any]) -> None:
        execution.status = status
        execution.error = data["error"]

    return apply


_WORKFLOW_EVENTS: dict[str, Callable[[Execution, dict[str, Any]], None]] = {
    "CancelRequested": _cancel_requested,
    "WorkflowCompleted": _completed,
    "WorkflowFailed": _ended_badly("FAILED"),
    "WorkflowCancelled": _ended_badly("CANCELLED"),
}

"""Executions as the events of their history make them.

Only ``Execution.apply`` changes a state, and only by an event; what should happen next is decided elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from orbit_django.contracts import Call, TaskContract, Unit, Workflow
from orbit_django.contracts.declarations import FAILURE, INPUT, ITEM
from orbit_django.contracts.units import COMPENSATE, HANDLERS
from orbit_django.embedded.steps import CHANGES, Delivery, StepState, StepStatus
from orbit_django.embedded.store import Event

_OUTCOMES = {"StepSucceeded", "StepFailed", "StepCancelled"}


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
        self.failure: dict[str, Any] | None = None  # what ends it badly, once something does
        self.ending = ""  # and how: failure, cancel or timeout
        self.steps = {declared.name: StepState(declared.name) for declared in definition.steps}
        self.to_undo: list[StepState] = []  # what a bad end has to undo yet, in the order of success
        self._calls = definition.calls

    @property
    def is_finished(self) -> bool:
        """Say whether nothing will change any more."""
        return self.status != "RUNNING"

    @property
    def is_aborting(self) -> bool:
        """Say whether no step of its own begins any more."""
        return bool(self.ending)

    def declaration(self, step: StepState) -> Call:
        """Return what the workflow says of a step."""
        return self._calls[step.unit.declared]

    def is_declared(self, unit: Unit) -> bool:
        """Say whether the workflow knows such a unit."""
        return unit.declared in self._calls

    def contract(self, step: StepState) -> TaskContract:
        """Return the contract of the task that a step calls."""
        return self.definition.contracts[step.unit.declared]

    def in_flight(self) -> Iterator[tuple[StepState, Delivery]]:
        """Yield each step that a worker holds, with its delivery."""
        return ((step, step.current) for step in self.steps.values() if step.current)

    def scope(self, unit: Unit | None = None) -> dict[str, Any]:
        """Return what expressions can see, those of a unit a little more: the input, and outputs of finished steps."""
        scope = {INPUT: self.input, **self._outputs("")}
        if unit is None:
            return scope
        if not unit.is_plain and self.failure is not None:
            scope |= self._outputs(unit.prefix) if unit.prefix in HANDLERS else {}
            scope[FAILURE] = {"reason": self.ending, "code": self.failure["code"], "message": self.failure["message"]}
        if unit.index is not None:
            scope[ITEM] = self.steps[unit.step].items[unit.index]
            scope[unit.step] = self.steps[str(Unit(unit.step, index=unit.index))].output
        return scope

    def _outputs(self, prefix: str) -> dict[str, Any]:
        states = ((step.name, self.steps.get(prefix + step.name)) for step in self.definition.block(prefix))
        return {name: state.output for name, state in states if state and state.output is not None}

    def apply(self, event: Event) -> None:
        """Take over what an event says."""
        if name := event.data.get("step"):
            step = self.steps.setdefault(name, StepState(name))
            CHANGES[event.kind](step, event.data)
            if event.kind == "StepFanOut":
                units = (str(Unit(name, index=index)) for index in range(len(step.items)))
                self.steps |= {unit: StepState(unit) for unit in units}
            elif event.kind in _OUTCOMES:
                self._take_outcome(step, event.data)
        elif event.kind in _WORKFLOW_EVENTS:
            _WORKFLOW_EVENTS[event.kind](self, event.data)

    def _take_outcome(self, step: StepState, data: dict[str, Any]) -> None:
        if not step.unit.is_plain:
            if step.unit.prefix == COMPENSATE:
                self.to_undo.pop()  # one after another, the newest first
            return
        if step.status is StepStatus.SUCCEEDED and self.is_declared(step.unit.undone()):
            self.to_undo.append(step)
        elif step.status is StepStatus.FAILED and not self.ending:
            self.ending, self.failure = "failure", data["error"]
        if step.unit.index is not None:
            parent = self.steps[step.unit.step]
            parent.left -= 1
            if not parent.left:
                self._gather(parent)

    def _gather(self, parent: StepState) -> None:
        elements = [self.steps[str(Unit(parent.name, index=index))] for index in range(len(parent.items))]
        statuses = {element.status for element in elements}
        if statuses == {StepStatus.SUCCEEDED}:
            parent.output = [element.output for element in elements]
            parent.status = StepStatus.SUCCEEDED
        else:
            parent.status = StepStatus.FAILED if StepStatus.FAILED in statuses else StepStatus.CANCELLED


def _cancel_requested(execution: Execution, data: dict[str, Any]) -> None:
    execution.ending = "cancel"
    execution.failure = {"code": "CANCELLED", "message": data["reason"] or "cancelled"}


def _timed_out(execution: Execution, data: dict[str, Any]) -> None:
    execution.ending = "timeout"
    text = f"workflow `{execution.workflow}` took longer than {execution.definition.timeout_ms} ms"
    execution.failure = {"code": "WORKFLOW_TIMEOUT", "message": text}


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
    "WorkflowTimeoutReached": _timed_out,
    "WorkflowCompleted": _completed,
    "WorkflowFailed": _ended_badly("FAILED"),
    "WorkflowCancelled": _ended_badly("CANCELLED"),
    "WorkflowTimedOut": _ended_badly("TIMED_OUT"),
}

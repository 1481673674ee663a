"""Build the state from the history again: what a restart of the runtime means (O132, O134)."""

from __future__ import annotations

import logging

from orbit_django.contracts import Position, Workflow
from orbit_django.embedded.attempts import Attempts
from orbit_django.embedded.executions import Execution, StepState, StepStatus
from orbit_django.embedded.flow import Flow
from orbit_django.embedded.state import State
from orbit_django.embedded.store import Event, Store

logger = logging.getLogger(__name__)


def recover(state: State, store: Store, flow: Flow, attempts: Attempts, grace_ms: int) -> None:
    """Read every event, then resume: tokens stay valid, sessions are forgotten, timers run again.

    What was in flight is delivered again when nobody has reported it within the grace.
    """
    for event in store.events():
        if event.kind == "WorkflowStarted":
            state.executions[event.execution_id] = Execution(event, _definition(state, event))
        else:
            state.executions[event.execution_id].apply(event)
    _tell_changes(state)
    for execution in state.executions.values():
        if not execution.is_finished:
            _resume(state, execution, attempts, grace_ms)
        if not execution.is_finished:
            flow.advance(execution)
    state.journal.commit()


def _tell_changes(state: State) -> None:
    """Warn of each declared workflow whose newest execution began under another text of the same version."""
    newest = {(execution.workflow, execution.version): execution for execution in state.executions.values()}
    for (name, version), execution in newest.items():
        declared = state.catalog.workflow(name, version)
        if declared is not None and declared.definition_hash() != execution.definition_hash:
            logger.warning(
                "workflow %s %s differs from the one that the state file knows; what runs of it fails with"
                " DEFINITION_CHANGED, so give a changed workflow a new version",
                *(name, version),
            )


def _definition(state: State, started: Event) -> Workflow:
    """Return the workflow as it is declared now; an empty one when it is not declared any more."""
    name, version = started.data["workflow"], started.data["version"]
    nothing = Workflow(name=name, version=version, input={}, output={}, steps=(), result={}, at=Position("", 0, 0))
    return state.catalog.workflow(name, version) or nothing


def _resume(state: State, execution: Execution, attempts: Attempts, grace_ms: int) -> None:
    if execution.definition.definition_hash() != execution.definition_hash:
        text = f"workflow {execution.workflow} {execution.version} is no longer declared as it was at the start"
        state.journal.record(execution, "WorkflowFailed", error={"code": "DEFINITION_CHANGED", "message": text})
        logger.info("an execution ended", extra={"execution": execution.id, "status": execution.status, "error": text})
        return
    for step in execution.steps.values():
        _resume_step(state, execution, step, attempts)
    for step, delivery in execution.in_flight():
        attempts.watch_deadline(execution, step, delivery)
        _watch_grace(state, attempts, execution, step, grace_ms)


def _resume_step(state: State, execution: Execution, step: StepState, attempts: Attempts) -> None:
    for token in step.deliveries:
        state.tokens[token] = (execution, step)
    if step.status is StepStatus.QUEUED:
        state.enqueue(execution, step)
    elif step.status is StepStatus.DELAYED:
        attempts.watch_retry(execution, step)


def _watch_grace(state: State, attempts: Attempts, execution: Execution, step: StepState, grace_ms: int) -> None:
    delivery = step.current

    def end() -> None:
        if step.current is delivery:
            attempts.lose(execution, step, "nobody reported it after the runtime restarted")

    state.timers.at(state.clock.monotonic() + grace_ms / 1000, end)

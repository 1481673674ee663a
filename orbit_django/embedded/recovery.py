"""Build the state from the history again: what a restart of the runtime means (O132, O134)."""

from __future__ import annotations

import logging

from orbit_django.contracts import Workflow
from orbit_django.embedded.attempts import Attempts
from orbit_django.embedded.executions import Execution
from orbit_django.embedded.flow import Flow
from orbit_django.embedded.scheduling import Scheduling
from orbit_django.embedded.state import State
from orbit_django.embedded.steps import Delivery, StepState, StepStatus
from orbit_django.embedded.store import Event, Store
from orbit_django.logs import SteadyLogger

logger = SteadyLogger(logging.getLogger(__name__))

CHANGED = (
    "workflow {} {} is no longer declared as it was at the start: a version stays in CONTRACTS, beside newer ones,"
    " until its executions have ended. What its steps did stays done: look at it before anything is started again"
)


class Recovery:
    """Reads every event, then resumes: tokens stay valid, sessions are forgotten, timers run again.

    What was in flight is delivered again when nobody has reported it within the grace.
    """

    def __init__(self, state: State, scheduling: Scheduling, flow: Flow, attempts: Attempts) -> None:
        self._state = state
        self._scheduling = scheduling
        self._flow = flow
        self._attempts = attempts

    def run(self, store: Store, grace_ms: int) -> None:
        """Build the state from the store's events and go on."""
        executions = self._state.executions
        for event in store.events():
            self._state.journal.count(event)
            if event.kind == "WorkflowStarted":
                executions[event.execution_id] = Execution(event, self._definition(event))
            else:
                executions[event.execution_id].apply(event)
        self._tell_changes()
        for execution in executions.values():
            if not execution.is_finished:
                self._resume(execution, grace_ms)
            if not execution.is_finished:
                self._flow.advance(execution)
        self._state.journal.commit()

    def _tell_changes(self) -> None:
        """Warn of each declared workflow whose newest execution began under another text of the same version."""
        newest = {(execution.workflow, execution.version): execution for execution in self._state.executions.values()}
        for (name, version), execution in newest.items():
            declared = self._state.catalog.workflow(name, version)
            if declared is not None and declared.definition_hash != execution.definition_hash:
                logger.warning(
                    "workflow %s %s differs from the one that the state file knows; what runs of it fails with"
                    " DEFINITION_CHANGED, so give a changed workflow a new version and keep the old one beside it",
                    *(name, version),
                )

    def _definition(self, started: Event) -> Workflow:
        """Return the workflow as it is declared now; an empty one when it is not declared any more."""
        name, version = started.data["workflow"], started.data["version"]
        return self._state.catalog.workflow(name, version) or Workflow(name=name, version=version)

    def _resume(self, execution: Execution, grace_ms: int) -> None:
        if execution.definition.definition_hash != execution.definition_hash:
            text = CHANGED.format(execution.workflow, execution.version)
            error = {"code": "DEFINITION_CHANGED", "message": text}
            self._state.journal.record(execution, "WorkflowFailed", error=error)
            about = {"execution": execution.id, "status": execution.status, "error": text}
            logger.warning("an execution ended, since its workflow is not declared any more as it was", extra=about)
            return
        self._flow.watch_timeout(execution)
        for step in tuple(execution.steps.values()):
            self._resume_step(execution, step)
        for step, delivery in execution.in_flight():
            self._attempts.watch_deadline(execution, step, delivery)
            self._watch_grace(execution, step, delivery, grace_ms)

    def _resume_step(self, execution: Execution, step: StepState) -> None:
        for token in step.deliveries:
            self._state.tokens[token] = (execution, step)
        if step.status is StepStatus.QUEUED:
            self._scheduling.resume(execution, step)
        elif step.status is StepStatus.DELAYED:
            self._attempts.watch_retry(execution, step)

    def _watch_grace(self, execution: Execution, step: StepState, delivery: Delivery, grace_ms: int) -> None:
        def end() -> None:
            if step.current is delivery:
                self._attempts.lose(execution, step, "nobody reported it after the runtime restarted")

        self._state.timers.at(self._state.clock.monotonic() + grace_ms / 1000, end)

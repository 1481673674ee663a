"""What comes next in an execution: beginning steps, aborting, finishing."""

from __future__ import annotations

import logging
from typing import Any

from orbit_django.contracts import Expression, find_mismatch
from orbit_django.contracts.expressions import evaluate, value_of
from orbit_django.embedded.aftermath import Aftermath
from orbit_django.embedded.executions import Execution
from orbit_django.embedded.scheduling import Scheduling
from orbit_django.embedded.sessions import Sessions
from orbit_django.embedded.state import State
from orbit_django.embedded.steps import StepState, StepStatus
from orbit_django.exceptions import ExpressionError
from orbit_django.logs import SteadyLogger

_ENDS = {"failure": "WorkflowFailed", "cancel": "WorkflowCancelled", "timeout": "WorkflowTimedOut"}
logger = SteadyLogger(logging.getLogger(__name__))


class Flow:
    """Moves executions on after each change."""

    def __init__(self, state: State, sessions: Sessions, scheduling: Scheduling) -> None:
        self._state = state
        self._sessions = sessions
        self._scheduling = scheduling
        self._aftermath = Aftermath(state, scheduling)

    def advance(self, execution: Execution) -> None:
        """Begin every step whose inputs are there, or finish the execution."""
        while not execution.is_aborting and (step := _next(execution)):
            self._begin(execution, step)
        if execution.is_aborting:
            self._settle(execution)
        elif all(execution.steps[step.name].output is not None for step in execution.definition.steps):
            self._complete(execution)

    def watch_timeout(self, execution: Execution) -> None:
        """Have the execution end when its workflow's time is over."""
        if (timeout_ms := execution.definition.timeout_ms) is None:
            return

        def end() -> None:
            if not execution.is_finished and not execution.is_aborting:
                self._state.journal.record(execution, "WorkflowTimeoutReached")
                self.abort(execution)

        self._state.timers.at(self._state.monotonic_at(execution.created_at_ms + timeout_ms), end)

    def succeed(self, execution: Execution, step: StepState) -> None:
        """Go on after the success of a step."""
        self._aftermath.succeed(execution, step)
        self.advance(execution)

    def fail(self, execution: Execution, step: StepState, error: dict[str, Any]) -> None:
        """End a step as failed and its execution with it, once no attempt is in flight."""
        if step.unit.is_plain:
            self._state.journal.record(execution, "StepFailed", step=step.name, error=error)
            self.abort(execution)
        else:
            self._aftermath.fail(execution, step, error)
            self._settle(execution)

    def abort(self, execution: Execution) -> None:
        """Cancel what has not begun, ask the holders of the rest to stop, and finish when nothing is left (O140)."""
        for step in tuple(execution.steps.values()):
            if step.current:
                self.ask_to_stop(step)
            elif not step.is_resolved and step.status is not StepStatus.FANNED_OUT:
                self._state.ready.discard((execution.id, step.name))
                self._state.journal.record(execution, "StepCancelled", step=step.name)
        self._settle(execution)

    def ask_to_stop(self, step: StepState) -> None:
        """List the token in flight, once, for the next heartbeat of the session that holds it (O082)."""
        delivery = step.current
        if delivery is None or delivery.is_asked_to_stop:
            return
        delivery.is_asked_to_stop = True
        if session := self._sessions.find(delivery.session_id):
            session.cancel.append(delivery.token)

    def _begin(self, execution: Execution, step: StepState) -> None:
        each = execution.definition.step(step.name).each
        if each is not None:
            self._fan_out(execution, step, each)
        elif error := self._scheduling.begin(execution, step):
            self.fail(execution, step, error)

    def _fan_out(self, execution: Execution, step: StepState, each: Expression) -> None:
        try:
            items = value_of(each, execution.scope())
        except ExpressionError as missing:
            items = str(missing)
        if not isinstance(items, list):
            text = f"step `{step.name}` needs a list to fan out: {items}"
            self.fail(execution, step, {"code": "EXPRESSION_ERROR", "message": text})
            return
        self._state.journal.record(execution, "StepFanOut", step=step.name, items=items)
        for index in range(len(items)):
            element = execution.steps[f"{step.name}[{index}]"]
            if error := self._scheduling.begin(execution, element):
                self.fail(execution, element, error)
                return

    def _complete(self, execution: Execution) -> None:
        try:
            output = evaluate(execution.definition.result, execution.scope())
        except ExpressionError as missing:
            self._finish(execution, "WorkflowFailed", error={"code": "EXPRESSION_ERROR", "message": str(missing)})
            return
        if mismatch := find_mismatch(output, execution.definition.output):
            text = f"output of workflow `{execution.workflow}` does not match its declaration at {mismatch}"
            error = {"code": "OUTPUT_CONTRACT_VIOLATION", "message": text}
            self._finish(execution, "WorkflowFailed", error=error)
        else:
            self._finish(execution, "WorkflowCompleted", output=output)

    def _settle(self, execution: Execution) -> None:
        # Its holders still report, or their sessions end (O141); then comes what a bad end brings with it.
        if execution.is_finished or any(execution.in_flight()) or self._aftermath.goes_on(execution):
            return
        self._finish(execution, _ENDS[execution.ending], error=execution.failure)

    def _finish(self, execution: Execution, kind: str, **data: Any) -> None:
        self._state.journal.record(execution, kind, **data)
        self._state.news += 1
        about = {"execution": execution.id, "workflow": execution.workflow, "status": execution.status}
        if execution.error is not None:
            about |= {"code": execution.error["code"], "error": execution.error["message"]}
        logger.info("an execution ended", extra=about)
        for step in execution.steps.values():
            for token in step.deliveries:
                self._state.tokens.pop(token, None)


def _next(execution: Execution) -> StepState | None:
    """Return the first step that can begin."""
    for declared in execution.definition.steps:
        step = execution.steps[declared.name]
        if step.status is StepStatus.WAITING and all(
            execution.steps[name].status is StepStatus.SUCCEEDED for name in declared.needs()
        ):
            return step
    return None


def step_error(step: StepState, error: dict[str, Any]) -> dict[str, Any]:
    """Return the error of an execution whose step failed with a worker's error or a timeout (O215)."""
    said = f": {error['message']}" if error["message"] else ""
    rest = {"details": error["details"]} if "details" in error else {}
    return {"code": error["code"], "message": f"step `{step.name}` failed{said}", **rest}


def can_retry(execution: Execution, step: StepState, error: dict[str, Any]) -> bool:
    """Say whether the step's policy allows another attempt after this error (O103, O104)."""
    policy = execution.declaration(step).retry
    is_allowed = error["retryable"] and error["code"] not in policy.non_retryable
    return bool(is_allowed and step.attempt < policy.attempts)

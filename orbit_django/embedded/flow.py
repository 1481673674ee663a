"""What comes next in an execution: scheduling steps, aborting, finishing."""

from __future__ import annotations

import logging
from typing import Any

from orbit_django.contracts import Step, find_mismatch
from orbit_django.contracts.expressions import evaluate, value_of
from orbit_django.embedded.executions import Execution, StepState, StepStatus
from orbit_django.embedded.sessions import Sessions
from orbit_django.embedded.state import State

logger = logging.getLogger(__name__)


class Flow:
    """Moves executions on after each change."""

    def __init__(self, state: State, sessions: Sessions) -> None:
        self._state = state
        self._sessions = sessions

    def advance(self, execution: Execution) -> None:
        """Schedule every step whose inputs are there, or finish the execution."""
        if execution.is_aborting:
            self._settle(execution)
            return
        done = {step.name for step in execution.steps.values() if step.status is StepStatus.SUCCEEDED}
        for declared in execution.definition.steps:
            step = execution.steps[declared.name]
            if step.status is StepStatus.WAITING and declared.needs() <= done and not execution.is_aborting:
                self._begin(execution, declared, step)
        if len(done) == len(execution.steps):
            self._complete(execution)

    def reschedule(self, execution: Execution, step: StepState, *, redelivery: bool) -> None:
        """Put a step into line again: the same attempt for a redelivery, the next one for a retry."""
        self._schedule(execution, step, step.input, step.idempotency_key, redelivery=redelivery)

    def fail(self, execution: Execution, step: StepState, error: dict[str, Any]) -> None:
        """End a step as failed and its execution with it, once no attempt is in flight."""
        self._state.journal.record(execution, "StepFailed", step=step.name, error=error)
        self.abort(execution)

    def abort(self, execution: Execution) -> None:
        """Cancel what has not begun, ask the holders of the rest to stop, and finish when nothing is left (O140)."""
        for step in execution.steps.values():
            if step.current:
                self.ask_to_stop(step)
            elif not step.is_resolved:
                self._state.ready.discard((execution.id, step.name))
                self._state.journal.record(execution, "StepCancelled", step=step.name)
        self._settle(execution)

    def ask_to_stop(self, step: StepState) -> None:
        """List the token in flight for the next heartbeat of the session that holds it (O082)."""
        if step.current and (session := self._sessions.find(step.current.session_id)):
            session.cancel.append(step.current.token)

    def _begin(self, execution: Execution, declared: Step, step: StepState) -> None:
        scope = execution.scope()
        value = evaluate(declared.arguments, scope)
        contract = execution.contract(step)
        if mismatch := find_mismatch(value, contract.input):
            text = f"input for `{contract.name}` does not match its contract at {mismatch}"
            self.fail(execution, step, {"code": "INPUT_CONTRACT_VIOLATION", "message": text})
            return
        key = f"{execution.id}/{declared.name}"
        if declared.idempotency_key is not None:
            key = value_of(declared.idempotency_key, scope)
        step.attempt = 1
        self._schedule(execution, step, value, key, redelivery=False)

    def _schedule(self, execution: Execution, step: StepState, value: Any, key: str, *, redelivery: bool) -> None:
        self._state.journal.record(
            execution,
            "StepScheduled",
            step=step.name,
            attempt=step.attempt,
            input=value,
            idempotency_key=key,
            redelivery=redelivery,
        )
        self._state.enqueue(execution, step)

    def _complete(self, execution: Execution) -> None:
        output = evaluate(execution.definition.result, execution.scope())
        if mismatch := find_mismatch(output, execution.definition.output):
            text = f"output of workflow `{execution.workflow}` does not match its declaration at {mismatch}"
            error = {"code": "OUTPUT_CONTRACT_VIOLATION", "message": text}
            self._finish(execution, "WorkflowFailed", error=error)
        else:
            self._finish(execution, "WorkflowCompleted", output=output)

    def _settle(self, execution: Execution) -> None:
        if any(execution.in_flight()):
            return  # its holder still reports, or its session ends (O141)
        if execution.failure:
            self._finish(execution, "WorkflowFailed", error=execution.failure)
        else:
            error = {"code": "CANCELLED", "message": execution.cancel_reason or "cancelled"}
            self._finish(execution, "WorkflowCancelled", error=error)

    def _finish(self, execution: Execution, kind: str, **data: Any) -> None:
        self._state.journal.record(execution, kind, **data)
        about = {"execution": execution.id, "workflow": execution.workflow, "status": execution.status}
        if execution.error is not None:
            about |= {"code": execution.error["code"], "error": execution.error["message"]}
        logger.info("an execution ended", extra=about)
        for step in execution.steps.values():
            for token in step.deliveries:
                self._state.tokens.pop(token, None)


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

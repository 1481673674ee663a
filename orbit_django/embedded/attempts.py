"""The life of one attempt: handed out, reported, timed out, or lost with its session."""

from __future__ import annotations

import logging
import uuid
from typing import Any

from orbit_django.contracts import find_mismatch
from orbit_django.embedded.executions import Execution
from orbit_django.embedded.flow import Flow, can_retry, step_error
from orbit_django.embedded.scheduling import Scheduling
from orbit_django.embedded.sessions import Session, Sessions
from orbit_django.embedded.state import State
from orbit_django.embedded.steps import Delivery, StepState, StepStatus
from orbit_django.logs import SteadyLogger

logger = SteadyLogger(logging.getLogger(__name__))


class Attempts:
    """Hands out attempts and takes their outcomes."""

    def __init__(self, state: State, sessions: Sessions, scheduling: Scheduling, flow: Flow) -> None:
        self._state = state
        self._sessions = sessions
        self._scheduling = scheduling
        self._flow = flow

    def dispatch(self, session: Session) -> dict[str, Any] | None:
        """Hand the oldest matching step to a session; None when there is none (O060, O064 to O066)."""
        unit = self._state.ready.take(session.contracts, session.runtime.lower())
        if unit is None:
            return None
        execution = self._state.executions[unit[0]]
        step = execution.steps[unit[1]]
        timeout_ms = execution.declaration(step).timeout_ms
        deadline = {"deadline_ms": self._state.wall_ms() + timeout_ms} if timeout_ms else {}
        token = str(uuid.uuid4())
        self._state.journal.record(
            execution,
            "StepDispatched",
            step=step.name,
            attempt=step.attempt,
            token=token,
            worker_id=session.worker_id,
            worker_session=session.id,
            **deadline,
        )
        self._state.tokens[token] = (execution, step)
        session.held[token] = unit
        self.watch_deadline(execution, step, step.deliveries[token])
        return _assignment(execution, step, token) | deadline | ({"timeout_ms": timeout_ms} if timeout_ms else {})

    def watch_deadline(self, execution: Execution, step: StepState, delivery: Delivery) -> None:
        """Have the attempt time out at its deadline (O133)."""
        if delivery.deadline_ms is not None:
            due = self._state.monotonic_at(delivery.deadline_ms)
            self._state.timers.at(due, lambda: self._time_out(execution, step, delivery))

    def watch_retry(self, execution: Execution, step: StepState) -> None:
        """Have the next attempt scheduled when its pause is over."""
        attempt, due = step.attempt, self._state.monotonic_at(step.retry_at_ms)

        def fire() -> None:
            if step.status is StepStatus.DELAYED and step.attempt == attempt:
                self._scheduling.again(execution, step, redelivery=False)

        self._state.timers.at(due, fire)

    def output_mismatch(self, execution: Execution, step: StepState, output: Any) -> str | None:
        """Return how an output, its defaults filled in, differs from the task's contract, or None (O091)."""
        contract = execution.contract(step)
        mismatch = find_mismatch(output, contract.output)
        return mismatch and f"worker output for `{contract.name}` does not match its contract at {mismatch}"

    def succeed(self, execution: Execution, step: StepState, output: dict[str, Any]) -> None:
        """Resolve a step, whichever of its deliveries the success came from (O126)."""
        self._release(step)
        self._state.ready.discard((execution.id, step.name))
        self._state.journal.record(execution, "StepSucceeded", step=step.name, attempt=step.attempt, output=output)
        self._flow.succeed(execution, step)

    def refuse_output(self, execution: Execution, step: StepState, text: str) -> None:
        """Fail the attempt in flight, and its step, for an output that breaks the contract; never retried (O091)."""
        error = {"code": "OUTPUT_CONTRACT_VIOLATION", "message": text, "retryable": False}
        self._end_attempt(execution, step, error)
        if not self._is_cancelled(execution, step):
            self._flow.fail(execution, step, {"code": error["code"], "message": text})

    def fail(self, execution: Execution, step: StepState, error: dict[str, Any]) -> None:
        """Fail the attempt in flight and let the retry policy decide (O103)."""
        self._end_attempt(execution, step, error)
        if self._is_cancelled(execution, step):
            return
        if not can_retry(execution, step, error):
            self._flow.fail(execution, step, step_error(step, error))
            return
        delay_ms = execution.declaration(step).retry.delay_ms(step.attempt)
        self._state.journal.record(
            execution,
            "RetryScheduled",
            step=step.name,
            next_attempt=step.attempt + 1,
            delay_ms=delay_ms,
            fire_at_ms=self._state.wall_ms() + delay_ms,
        )
        self.watch_retry(execution, step)

    def lose(self, execution: Execution, step: StepState, reason: str) -> None:
        """Mark the attempt in flight as uncertain and deliver it again, which uses no retry (O131)."""
        self._release(step)
        self._state.journal.record(
            execution, "StepAttemptUncertain", step=step.name, attempt=step.attempt, reason=reason
        )
        if not self._is_cancelled(execution, step):
            about = {"execution": execution.id, "step": step.name, "attempt": step.attempt, "why": reason}
            logger.info("an attempt is delivered again", extra=about)
            self._scheduling.again(execution, step, redelivery=True)

    def lose_session(self, session: Session, reason: str) -> None:
        """Deliver again everything that a session held (O110, O131)."""
        self._state.news += 1
        for execution_id, name in tuple(session.held.values()):
            execution = self._state.executions[execution_id]
            self.lose(execution, execution.steps[name], reason)

    def expire(self, execution: Execution, step: StepState) -> None:
        """Fail a step that no worker has taken in time; never retried."""
        limit_ms, name = execution.declaration(step).queue_timeout_ms, execution.contract(step).name
        text = f"no worker took `{name}` within {limit_ms} ms"
        error = {"code": "QUEUE_TIMEOUT", "message": text, "retryable": False}
        self._state.ready.discard((execution.id, step.name))
        self._end_attempt(execution, step, error)
        self._flow.fail(execution, step, step_error(step, error))

    def _time_out(self, execution: Execution, step: StepState, delivery: Delivery) -> None:
        if step.current is not delivery:
            return
        self._flow.ask_to_stop(step)
        timeout_ms = execution.declaration(step).timeout_ms
        error = {"code": "TIMEOUT", "message": f"the attempt took longer than {timeout_ms} ms", "retryable": True}
        self.fail(execution, step, error)

    def _end_attempt(self, execution: Execution, step: StepState, error: dict[str, Any]) -> None:
        self._release(step)
        self._state.journal.record(execution, "StepAttemptFailed", step=step.name, attempt=step.attempt, error=error)

    def _is_cancelled(self, execution: Execution, step: StepState) -> bool:
        """End one of the execution's own steps without another try when the execution is being aborted."""
        is_cancelled = execution.is_aborting and step.unit.is_plain
        if is_cancelled:
            self._state.journal.record(execution, "StepCancelled", step=step.name)
            self._flow.advance(execution)
        return is_cancelled

    def _release(self, step: StepState) -> None:
        if step.current and (session := self._sessions.find(step.current.session_id)):
            session.held.pop(step.current.token, None)


def _assignment(execution: Execution, step: StepState, token: str) -> dict[str, Any]:
    contract = execution.contract(step)
    return {
        "token": token,
        "execution_id": execution.id,
        "workflow": execution.workflow,
        "workflow_version": execution.version,
        "step_id": step.name,
        "task_name": contract.name,
        "contract_version": contract.version,
        "input": step.input,
        "idempotency_key": step.idempotency_key,
        "attempt": step.attempt,
        "redelivery": step.is_redelivery,
    }

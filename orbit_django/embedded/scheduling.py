"""Put steps into line for the workers: the first time, and again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from orbit_django.contracts import find_mismatch
from orbit_django.contracts.expressions import evaluate, value_of
from orbit_django.embedded.executions import Execution
from orbit_django.embedded.state import State
from orbit_django.embedded.steps import StepState, StepStatus
from orbit_django.exceptions import ExpressionError


class Scheduling:
    """Schedules steps. ``expired`` is called with each that no worker has taken in time."""

    def __init__(self, state: State) -> None:
        self.expired: Callable[[Execution, StepState], None] = lambda execution, step: None
        self._state = state

    def begin(self, execution: Execution, step: StepState) -> dict[str, Any] | None:
        """Put a step into line for the first time; return the error when it cannot begin (O074, O075)."""
        declared, contract = execution.declaration(step), execution.contract(step)
        key: Any = f"{execution.id}/{step.name}"
        try:
            scope = execution.scope(step.unit)
            value = evaluate(declared.arguments, scope)
            if declared.idempotency_key is not None:
                key = value_of(declared.idempotency_key, scope)
        except ExpressionError as error:
            return {"code": "EXPRESSION_ERROR", "message": f"step `{step.name}`: {error}"}
        if not isinstance(key, str):
            return {"code": "EXPRESSION_ERROR", "message": f"step `{step.name}`: its idempotency_key is no text"}
        if mismatch := find_mismatch(value, contract.input):
            text = f"input for `{contract.name}` does not match its contract at {mismatch}"
            return {"code": "INPUT_CONTRACT_VIOLATION", "message": text}
        step.attempt = 1
        self._schedule(execution, step, value, key, redelivery=False)
        return None

    def again(self, execution: Execution, step: StepState, *, redelivery: bool) -> None:
        """Put a step into line again: the same attempt for a redelivery, the next one for a retry."""
        self._schedule(execution, step, step.input, step.idempotency_key, redelivery=redelivery)

    def resume(self, execution: Execution, step: StepState) -> None:
        """Let workers poll a step that was scheduled before, and have it expire when its time in line is over."""
        self._state.enqueue(execution, step)
        if (deadline := step.queue_deadline_ms) is None:
            return

        def expire() -> None:
            if step.status is StepStatus.QUEUED and step.queue_deadline_ms == deadline:
                self.expired(execution, step)

        self._state.timers.at(self._state.monotonic_at(deadline), expire)

    def _schedule(self, execution: Execution, step: StepState, value: Any, key: str, *, redelivery: bool) -> None:
        limit_ms = execution.declaration(step).queue_timeout_ms
        self._state.journal.record(
            execution,
            "StepScheduled",
            step=step.name,
            attempt=step.attempt,
            input=value,
            idempotency_key=key,
            redelivery=redelivery,
            **({} if limit_ms is None else {"queue_deadline_ms": self._state.wall_ms() + limit_ms}),
        )
        self.resume(execution, step)

"""What follows when an execution ends badly: compensations, the newest success first, then the steps of its handler."""

from __future__ import annotations

from typing import Any

from orbit_django.contracts import Step, Unit
from orbit_django.contracts.units import COMPENSATE
from orbit_django.embedded.executions import Execution
from orbit_django.embedded.scheduling import Scheduling
from orbit_django.embedded.state import State
from orbit_django.embedded.steps import StepState, StepStatus


class Aftermath:
    """Begins what follows, once nothing of the execution's own is in flight any more."""

    def __init__(self, state: State, scheduling: Scheduling) -> None:
        self._state = state
        self._scheduling = scheduling

    def goes_on(self, execution: Execution) -> bool:
        """Begin what comes next, and say whether anything has to be waited for."""
        return self._compensates(execution) or self._handles(execution)

    def succeed(self, execution: Execution, step: StepState) -> None:
        """Note what the success of a unit means here."""
        if step.unit.prefix == COMPENSATE:
            self._state.journal.record(execution, "CompensationCompleted", unit=_undone(step))

    def fail(self, execution: Execution, step: StepState, error: dict[str, Any]) -> None:
        """End a unit as failed; the execution ends as it would have, and other compensations are made all the same."""
        self._state.journal.record(execution, "StepFailed", step=step.name, error=error)
        if step.unit.prefix == COMPENSATE:
            self._state.journal.record(execution, "CompensationFailed", unit=_undone(step), error=error)

    def _compensates(self, execution: Execution) -> bool:
        while execution.to_undo:
            unit = execution.to_undo[-1].unit.undone()
            step = execution.steps.get(str(unit)) or self._compensate(execution, unit)
            if not step.is_resolved:
                return True
        return False

    def _compensate(self, execution: Execution, unit: Unit) -> StepState:
        step = execution.steps[str(unit)] = StepState(str(unit))
        self._state.journal.record(execution, "CompensationStarted", unit=_undone(step))
        self._begin(execution, step)
        return step

    def _handles(self, execution: Execution) -> bool:
        prefix = f"on_{execution.ending}:"
        block = execution.definition.block(prefix)
        names = {declared.name for declared in block}
        for declared in block:
            if self._is_next(execution, prefix, declared, names):
                step = execution.steps[prefix + declared.name] = StepState(prefix + declared.name)
                self._begin(execution, step)
        states = (execution.steps.get(prefix + name) for name in names)
        return any(state and not state.is_resolved for state in states)

    def _is_next(self, execution: Execution, prefix: str, declared: Step, names: set[str]) -> bool:
        states = {name: execution.steps.get(prefix + name) for name in names}
        if states[declared.name] or any(state and state.status is StepStatus.FAILED for state in states.values()):
            return False
        needed = (states[name] for name in declared.needs() & names)
        return all(state and state.status is StepStatus.SUCCEEDED for state in needed)

    def _begin(self, execution: Execution, step: StepState) -> None:
        if error := self._scheduling.begin(execution, step):
            self.fail(execution, step, error)


def _undone(step: StepState) -> str:
    return step.name.removeprefix(COMPENSATE)

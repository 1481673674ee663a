"""All that the runtime knows at a moment, shared by the rules that change it."""

from __future__ import annotations

from dataclasses import dataclass, field

from orbit_django.clock import Clock
from orbit_django.contracts import Catalog
from orbit_django.embedded.executions import Execution
from orbit_django.embedded.journal import Journal
from orbit_django.embedded.ready import ReadySteps, Route
from orbit_django.embedded.steps import Delivery, StepState
from orbit_django.embedded.timers import Timers
from orbit_django.exceptions import RuntimeRefusalError
from orbit_django.protocol import Contract


@dataclass
class State:
    """Executions and what can be derived from them; rebuilt from the history at a restart."""

    catalog: Catalog
    clock: Clock
    journal: Journal
    timers: Timers = field(default_factory=Timers)
    ready: ReadySteps = field(default_factory=ReadySteps)
    executions: dict[str, Execution] = field(default_factory=dict)
    tokens: dict[str, tuple[Execution, StepState]] = field(default_factory=dict)  # of unfinished executions
    news: int = 0  # grows with whatever can end a wait: a step to poll, a session's end, an execution's end

    def execution(self, execution_id: str) -> Execution:
        """Return an execution; refuse with a 404 when there is none."""
        if execution := self.executions.get(execution_id):
            return execution
        raise RuntimeRefusalError(404, "UNKNOWN_EXECUTION", f"no execution `{execution_id}`")

    def find_delivery(self, token: str) -> tuple[Execution, StepState, Delivery] | None:
        """Return what a token stands for; None when it was never issued or its execution has finished (O125)."""
        if found := self.tokens.get(token):
            execution, step = found
            return execution, step, step.deliveries[token]
        return None

    def wall_ms(self) -> int:
        """Return the time of day in epoch milliseconds."""
        return int(self.clock.wall() * 1000)

    def monotonic_at(self, wall_ms: int) -> float:
        """Return the monotonic time at which the wall clock, left alone, will show ``wall_ms``."""
        return self.clock.monotonic() + wall_ms / 1000 - self.clock.wall()

    def enqueue(self, execution: Execution, step: StepState) -> None:
        """Let workers poll a step that is scheduled."""
        task = execution.contract(step)
        using = (execution.declaration(step).using or "any").lower()
        route = Route(Contract(task.name, task.version), None if using == "any" else using)
        self.ready.add(route, (execution.id, step.name))
        self.news += 1

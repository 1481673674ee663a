"""Recovery, a step of its own: what becomes of expired leases, reported failures and passed deadlines."""

from __future__ import annotations

from collections.abc import Callable

from orbit_django.embedded.weave.records import OVER, Attempt, Task
from orbit_django.embedded.weave.runs import Runs
from orbit_django.embedded.weave.state import State

TRANSIENT = frozenset({"TRANSIENT", "UNAVAILABLE", "RATE_LIMITED", "TIMEOUT"})
SAFE = frozenset({"read_only", "idempotent", "idempotency_key"})
AMBIGUOUS, EXHAUSTED, DEADLINE = "WV-TASK-AMBIGUOUS", "WV-TASK-RETRIES-EXHAUSTED", "WV-TASK-DEADLINE"
_MOST_OF_A_KIND = 10
Condition = Callable[[Task, Attempt | None], bool]


class Recovery:
    """Decides; until it has, a task is nobody's."""

    def __init__(self, state: State, runs: Runs) -> None:
        self._state = state
        self._runs = runs

    def step(self) -> int:
        """Make up to ten decisions of each kind and return how many were made."""
        now = self._state.now()
        expired = self._some(
            self._state.leased, lambda task, attempt: attempt is not None and self._is_expired(attempt)
        )
        failed = self._some(self._state.failed, lambda task, attempt: task.incident == "WV-TASK-FAILED")
        late = self._some(self._state.ready, lambda task, attempt: task.deadline <= now)
        for task in expired:
            self._end_lease(task)
            self._decide(task, is_transient=True)
        for task in failed:
            self._decide(task, is_transient=(task.failure or {}).get("code") in TRANSIENT)
        for task in late:
            self._runs.raise_incident(task, DEADLINE, "incident")
        decided = [*expired, *failed, *late]
        if decided:
            self._state.commit()
        return len(decided)

    def _some(self, ids: set[str], condition: Condition) -> list[Task]:
        tasks = (self._state.tasks[task_id] for task_id in sorted(ids))
        found = (task for task in tasks if self._is_open(task) and condition(task, self._state.latest(task)))
        return [task for task, _ in zip(found, range(_MOST_OF_A_KIND), strict=False)]

    def _is_open(self, task: Task) -> bool:
        run = self._runs.of(task)
        return run.status not in OVER and not run.is_blocked

    def _is_expired(self, attempt: Attempt) -> bool:
        return attempt.state == "active" and attempt.expires_at <= self._state.now()

    def _end_lease(self, task: Task) -> None:
        if attempt := self._state.latest(task):
            attempt.state = "recovered"
            self._state.save(attempt)

    def _decide(self, task: Task, *, is_transient: bool) -> None:
        """Let the task be tried again after a pause, or raise an incident; the ``outcome`` of a failure is not read."""
        is_safe = task.side_effect in SAFE
        retry_at = self._state.now() + delay_seconds(task)
        is_left = task.generation < task.retry["maxAttempts"] and retry_at < task.deadline
        if is_safe and is_transient and is_left:
            task.retry_at = retry_at
            self._runs.lift_incident(task, "ready")
        else:
            self._runs.raise_incident(task, EXHAUSTED if is_safe else AMBIGUOUS, "incident")


def delay_seconds(task: Task) -> float:
    """Return the pause after the present generation."""
    delay = task.retry["initialDelaySeconds"] * 2.0 ** min(task.generation - 1, 64)
    return float(min(delay, task.retry["maxDelaySeconds"]))

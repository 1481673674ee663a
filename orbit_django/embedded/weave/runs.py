"""Runs: what suspends them, what a person or a failed branch does to them, and how they end."""

from __future__ import annotations

from orbit_django.embedded.weave.records import OVER, Run, Task
from orbit_django.embedded.weave.state import State

_RESOLVED = ("completed", "cancelled")


class Runs:
    """The barrier that an incident puts up for the whole run; every call leaves the commit to its caller."""

    def __init__(self, state: State) -> None:
        self._state = state

    def of(self, task: Task) -> Run:
        """Return the run of a task."""
        return self._state.runs[task.run_id]

    def raise_incident(self, task: Task, code: str, status: str) -> None:
        """Suspend the run of a task for this reason."""
        task.incident, task.status = code, status
        self._state.save(task)
        self.settle(self.of(task))

    def lift_incident(self, task: Task, status: str) -> None:
        """Take back what a task suspends its run for."""
        task.incident, task.status = None, status
        self._state.save(task)
        self.settle(self.of(task))

    def settle(self, run: Run) -> None:
        """Let the status of a run follow from its tasks; outputs behind a barrier count when it is lifted."""
        if run.status not in OVER:
            tasks = self._state.tasks_of(run)
            is_suspended = run.incident is not None or any(task.incident for task in tasks)
            run.status = "suspended" if is_suspended else "waiting"
            is_open = run.status == "waiting" and not run.is_paused and not run.is_blocked
            if is_open and tasks and all(task.status in _RESOLVED for task in tasks):
                run.status = "completed"
        self._state.save(run)

    def end(self, run: Run, status: str, *, is_control: bool = True) -> None:
        """End a run as failed or cancelled: pending work is cancelled and the leases in force are revoked.

        Without ``is_control``, as by a timeout, those leases get no right to an ignored receipt.
        """
        run.status = status
        for task in self._state.tasks_of(run):
            if task.status != "completed":
                self._revoke(task, is_control=is_control)
                task.status, task.incident = "cancelled", None
                self._state.save(task)
        self._state.save(run)

    def block(self, run: Run) -> None:
        """Fence a run by policy, for good; the attempts in force are fenced with it."""
        run.is_blocked = True
        for task in self._state.tasks_of(run):
            attempt = self._state.latest(task)
            if attempt and attempt.state == "active":
                attempt.state = "policy_blocked"
                self._state.save(attempt)
        self._state.save(run)

    def _revoke(self, task: Task, *, is_control: bool) -> None:
        attempt = self._state.latest(task)
        if attempt is None or attempt.state != "active":
            return
        # Only a lease that was in force gets the right to one ignored receipt.
        is_live = task.status == "leased" and self._state.now() < min(attempt.expires_at, task.deadline)
        attempt.state = "control_revoked" if is_control and is_live else "revoked"
        self._state.save(attempt)

"""Everything that the server knows, as JSON types, for tests to look at."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from orbit_django.embedded.weave.state import State


class Views:
    """Everything that the server knows, as JSON types."""

    def __init__(self, state: State) -> None:
        self._state = state

    def task(self, task_id: str) -> dict[str, Any]:
        """Return a task with its run, its attempts and its receipts; raises KeyError."""
        task = self._state.tasks[task_id]
        run = self._state.runs[task.run_id]
        attempts = [asdict(one) for one in self._state.attempts.values() if one.task_id == task_id]
        receipts = [asdict(one) for one in self._state.receipts.values() if one.task_id == task_id]
        shown = asdict(task) | {"operation_key": task.operation_key, "run": asdict(run)}
        return shown | {"attempts": attempts, "receipts": receipts}

    def tasks(self) -> list[dict[str, Any]]:
        """Return all tasks, each with its attempts and receipts."""
        return [self.task(task_id) for task_id in self._state.tasks]

    def instances(self) -> list[dict[str, Any]]:
        """Return all instances."""
        return [asdict(one) for one in self._state.instances.values()]

    def releases(self) -> list[dict[str, Any]]:
        """Return all releases."""
        return [asdict(one) for one in self._state.releases.values()]

    def audits(self) -> list[dict[str, Any]]:
        """Return what was noted of secrets that were handed out."""
        return [asdict(one) for one in self._state.audits.values()]

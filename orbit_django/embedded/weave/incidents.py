"""Incidents are resolved by people: what a test does to tasks that recovery has given up.

Each method takes and returns JSON types, so that it can be called over HTTP as well.
"""

from __future__ import annotations

from typing import Any

from orbit_django.embedded.weave.records import Task
from orbit_django.embedded.weave.recovery import SAFE
from orbit_django.embedded.weave.runs import Runs
from orbit_django.embedded.weave.state import State
from orbit_django.exceptions import ConfigurationError


class Incidents:
    """Resolves incidents; to terminate a run instead, cancel it."""

    def __init__(self, state: State, runs: Runs) -> None:
        self._state = state
        self._runs = runs

    def retry_safe(self, task_id: str) -> None:
        """Resolve an incident: one more attempt with the same key and deadline, beyond the attempts allowed."""
        task = self._incident(task_id)
        if task.side_effect not in SAFE or self._state.now() >= task.deadline:
            raise ConfigurationError(f"task {task_id} is not safe to try again, or its deadline has passed")
        task.retry_at = self._state.now()
        self._runs.lift_incident(task, "ready")
        self._state.commit()

    def accept_output(self, task_id: str, output: Any) -> None:
        """Resolve an incident with an output that a person vouches for."""
        task = self._incident(task_id)
        task.output = output
        self._runs.lift_incident(task, "completed")
        self._state.commit()

    def _incident(self, task_id: str) -> Task:
        task = self._state.tasks[task_id]
        if task.status != "incident":
            raise ConfigurationError(f"task {task_id} has no incident")
        return task

"""Work is created, and people act on it: what a test does to runs beside the wire.

Each method takes and returns JSON types, so that it can be called over HTTP as well.
"""

from __future__ import annotations

from typing import Any

from orbit_django.embedded.weave.access import new_id
from orbit_django.embedded.weave.forms import SIDE_EFFECTS
from orbit_django.embedded.weave.records import OVER, Run, Task
from orbit_django.embedded.weave.runs import Runs
from orbit_django.embedded.weave.state import State
from orbit_django.embedded.weave.values import check_budget
from orbit_django.exceptions import ConfigurationError

_RETRY = {"maxAttempts": 1, "initialDelaySeconds": 1, "maxDelaySeconds": 30}


class Work:
    """Creates tasks, and disturbs and mends their runs."""

    def __init__(self, state: State, runs: Runs) -> None:
        self._state = state
        self._runs = runs

    def create_task(  # noqa: PLR0913 (what a workflow says of its step)
        self,
        capability: str,
        input: Any = None,
        *,
        run_id: str | None = None,
        step: str | None = None,
        release_id: str | None = None,
        side_effect: str | None = None,
        retry: dict[str, Any] | None = None,
        timeout_seconds: float | None = None,
        output_schema: Any = True,
        connection_revision_id: str | None = None,
    ) -> str:
        """Have a step that calls ``type@version`` wait for a worker and return the task's id.

        Without a run it gets one of its own, without a release the newest that offers the capability; side effect and
        time default to what the capability declares.
        """
        release_id, declared = self._declared(capability, release_id)
        check_budget(input)
        run = self._open_run(run_id) if run_id else Run(new_id(), self._state.releases[release_id].scope)
        task = Task(
            id=new_id(),
            scope=run.scope,
            run_id=run.id,
            step=step or f"step-{len(run.task_ids) + 1}",
            capability=capability,
            release_id=release_id,
            input=input,
            side_effect=_known_effect(side_effect or declared["sideEffect"]),
            retry=_RETRY | (retry or {}),
            deadline=self._state.now() + (timeout_seconds or declared["timeoutSeconds"]),
            output_schema=output_schema,
            connection_revision_id=connection_revision_id,
        )
        run.task_ids.append(task.id)
        self._state.save(run, task)
        self._state.commit()
        return task.id

    def _declared(self, capability: str, release_id: str | None) -> tuple[str, dict[str, Any]]:
        """Return the release that offers a capability and what it declares; raise ConfigurationError for none."""
        release_id = release_id or self._offering(capability)
        declared = self._state.releases[release_id].capability(capability) if release_id else None
        if release_id is None or declared is None:
            raise ConfigurationError(f"no release that was admitted offers {capability}")
        return release_id, declared

    def pause(self, run_id: str) -> None:
        """Pause a run by hand."""
        self._set_paused(run_id, is_paused=True)

    def resume(self, run_id: str) -> None:
        """Let a run that was paused or suspended go on; what its tasks reported meanwhile counts now."""
        self._state.runs[run_id].incident = None
        self._set_paused(run_id, is_paused=False)

    def suspend(self, run_id: str, code: str = "WV-TASK-FAILED") -> None:
        """Suspend a run for something else than the tasks here, until it is resumed."""
        run = self._open_run(run_id)
        run.incident = code
        self._runs.settle(run)
        self._state.commit()

    def fail_branch(self, run_id: str) -> None:
        """Let a structured branch fail: the run fails, and the leases of its siblings are revoked."""
        self._runs.end(self._open_run(run_id), "failed")
        self._state.commit()

    def cancel(self, run_id: str) -> None:
        """Cancel a run; the leases in force are revoked."""
        self._runs.end(self._open_run(run_id), "cancelled")
        self._state.commit()

    def time_out(self, run_id: str) -> None:
        """Let the time of a whole run be over: it fails, and its leases are gone for good."""
        self._runs.end(self._open_run(run_id), "failed", is_control=False)
        self._state.commit()

    def block(self, run_id: str) -> None:
        """Block a run by policy, for good."""
        self._runs.block(self._state.runs[run_id])
        self._state.commit()

    def _set_paused(self, run_id: str, *, is_paused: bool) -> None:
        run = self._state.runs[run_id]
        run.is_paused = is_paused
        self._runs.settle(run)
        self._state.commit()

    def _open_run(self, run_id: str) -> Run:
        run = self._state.runs[run_id]
        if run.status in OVER:
            raise ConfigurationError(f"run {run_id} has ended: it is {run.status}")
        return run

    def _offering(self, capability: str) -> str | None:
        offering = [one.id for one in self._state.releases.values() if one.capability(capability)]
        return offering[-1] if offering else None


def _known_effect(word: str) -> str:
    if word not in SIDE_EFFECTS:
        raise ConfigurationError(f"side effect {word}: expected one of {', '.join(SIDE_EFFECTS)}")
    return word

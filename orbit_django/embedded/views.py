"""How executions, their history and workers are shown to an administrator (O113, O220)."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

from orbit_django.embedded.executions import Execution
from orbit_django.embedded.runtime import Runtime
from orbit_django.embedded.sessions import Session, WorkerRecord
from orbit_django.embedded.steps import StepState, StepStatus

_COUNTERS = {
    "executions_started": "WorkflowStarted",
    "executions_completed": "WorkflowCompleted",
    "executions_failed": "WorkflowFailed",
    "executions_cancelled": "WorkflowCancelled",
    "executions_timed_out": "WorkflowTimedOut",
    "tasks_dispatched": "StepDispatched",
    "tasks_succeeded": "StepSucceeded",
    "task_attempts_failed": "StepAttemptFailed",
    "task_attempts_uncertain": "StepAttemptUncertain",
    "retries_scheduled": "RetryScheduled",
    "stale_results": "StaleResultIgnored",
    "compensations_started": "CompensationStarted",
    "compensations_failed": "CompensationFailed",
}


def execution_view(execution: Execution) -> dict[str, Any]:
    """Return an execution: id, workflow, version, input, status, steps, and its output or error once it has one."""
    view: dict[str, Any] = {
        "id": execution.id,
        "workflow": execution.workflow,
        "version": execution.version,
        "created_at_ms": execution.created_at_ms,
        "input": execution.input,
        "status": execution.status,
        "steps": [_step_view(execution, step) for step in execution.steps.values()],
    }
    if execution.output is not None:
        view["output"] = execution.output
    if execution.error is not None:
        view["error"] = execution.error
    return view


def _step_view(execution: Execution, step: StepState) -> dict[str, Any]:
    view: dict[str, Any] = {"step": step.name, "status": step.status, "attempt": step.attempt}
    if step.status is StepStatus.QUEUED:  # so that people can see what it waits for
        contract = execution.contract(step)
        view |= {"task_name": contract.name, "contract_version": contract.version}
    if step.current:
        view["worker_id"] = step.current.worker_id
    if step.error is not None:
        view["error"] = step.error
    return view


def executions_view(runtime: Runtime, *, limit: int | None = None, status: str | None = None) -> list[dict[str, Any]]:
    """Return executions, newest first: at most ``limit`` of them, those with a status, or all."""
    newest = reversed(runtime.state.executions.values())
    wanted = (execution for execution in newest if status in {None, execution.status})
    return [execution_view(execution) for execution in itertools.islice(wanted, limit)]


def statuses_view(runtime: Runtime) -> dict[str, int]:
    """Return how many executions there are of each status."""
    return dict(Counter(execution.status for execution in runtime.state.executions.values()))


def counters_view(runtime: Runtime) -> dict[str, int]:
    """Return how often each kind of thing has happened since the history began, as the events tell it."""
    counts = runtime.state.journal.counts
    return {name: counts[event] for name, event in _COUNTERS.items()}


def history_view(runtime: Runtime, execution_id: str) -> list[dict[str, Any]]:
    """Return what happened to an execution, oldest first: event, at_ms, and the event's own members."""
    runtime.state.execution(execution_id)
    events = runtime.store.events(execution_id)
    return [{"event": event.kind, "at_ms": event.at_ms, **event.data} for event in events]


def workers_view(runtime: Runtime) -> list[dict[str, Any]]:
    """Return every worker that has registered since the runtime began."""
    live: dict[str, list[Session]] = {}
    for session in runtime.sessions:
        live.setdefault(session.worker_id, []).append(session)
    return [_worker_view(record, live.get(record.worker_id, [])) for record in runtime.sessions.workers.values()]


def _worker_view(record: WorkerRecord, live: list[Session]) -> dict[str, Any]:
    return {
        "worker_id": record.worker_id,
        "runtime": record.runtime,
        "sdk": record.sdk,
        "contracts": [
            {"task_name": contract.task_name, "contract_version": contract.contract_version}
            for contract in record.contracts
        ],
        "last_contact_ms": record.last_contact_ms,
        "online": bool(live),
        "sessions": len(live),
        "in_flight": sum(len(session.held) for session in live),
    }

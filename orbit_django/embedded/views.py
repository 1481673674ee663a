"""How executions, their history and workers are shown to an administrator (O113, O220)."""

from __future__ import annotations

from typing import Any

from orbit_django.embedded.executions import Execution
from orbit_django.embedded.runtime import Runtime
from orbit_django.embedded.steps import StepState


def execution_view(execution: Execution) -> dict[str, Any]:
    """Return an execution: id, workflow, version, input, status, steps, and its output or error once it has one."""
    view: dict[str, Any] = {
        "id": execution.id,
        "workflow": execution.workflow,
        "version": execution.version,
        "created_at_ms": execution.created_at_ms,
        "input": execution.input,
        "status": execution.status,
        "steps": [_step_view(step) for step in execution.steps.values()],
    }
    if execution.output is not None:
        view["output"] = execution.output
    if execution.error is not None:
        view["error"] = execution.error
    return view


def _step_view(step: StepState) -> dict[str, Any]:
    view: dict[str, Any] = {"step": step.name, "status": step.status, "attempt": step.attempt}
    if step.current:
        view["worker_id"] = step.current.worker_id
    if step.error is not None:
        view["error"] = step.error
    return view


def executions_view(runtime: Runtime) -> list[dict[str, Any]]:
    """Return all executions, newest first."""
    return [execution_view(execution) for execution in reversed(runtime.state.executions.values())]


def history_view(runtime: Runtime, execution_id: str) -> list[dict[str, Any]]:
    """Return what happened to an execution, oldest first: event, at_ms, and the event's own members."""
    runtime.state.execution(execution_id)
    events = runtime.store.events(execution_id)
    return [{"event": event.kind, "at_ms": event.at_ms, **event.data} for event in events]


def workers_view(runtime: Runtime) -> list[dict[str, Any]]:
    """Return every worker that has registered since the runtime began."""
    return [_worker_view(runtime, worker_id) for worker_id in runtime.sessions.workers]


def _worker_view(runtime: Runtime, worker_id: str) -> dict[str, Any]:
    record = runtime.sessions.workers[worker_id]
    live = [session for session in runtime.sessions if session.worker_id == worker_id]
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

"""The runtime as a state machine: each call of the protocol is one method that returns its answer at once.

It has no threads, never waits and does no input or output but through the store it is given; time comes from the given
clock, and whatever is due happens in ``tick``. A refusal is a RuntimeRefusalError. Bodies are checked for their shape
before they come here. Calls must not overlap.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from orbit_django.clock import Clock, SystemClock
from orbit_django.contracts import Catalog, find_mismatch
from orbit_django.contracts.names import instead
from orbit_django.embedded.attempts import Attempts
from orbit_django.embedded.callers import ANYONE, Caller
from orbit_django.embedded.executions import Execution
from orbit_django.embedded.flow import Flow
from orbit_django.embedded.journal import Journal
from orbit_django.embedded.recovery import Recovery
from orbit_django.embedded.scheduling import Scheduling
from orbit_django.embedded.sessions import Session, Sessions, check_registration, heartbeat_interval_ms
from orbit_django.embedded.state import State
from orbit_django.embedded.steps import Delivery, StepState
from orbit_django.embedded.store import MemoryStore, Store
from orbit_django.exceptions import RuntimeRefusalError
from orbit_django.protocol import REASON_CONTRACT, REASON_STALE

UNKNOWN_TOKEN = "unknown token (execution finished or token invalid)"  # noqa: S105 (a sentence, not a secret)
DUPLICATE = "duplicate result; step already resolved"
_ACCEPTED = {"accepted": True}


class Runtime:
    """Everything a worker can ask for, and starting and cancelling executions."""

    def __init__(
        self,
        catalog: Catalog,
        *,
        store: Store | None = None,
        clock: Clock | None = None,
        session_timeout_ms: int = 30_000,
    ) -> None:
        """Open the runtime on what the store holds."""
        self._clock = clock or SystemClock()
        self.store = store or MemoryStore()
        self.state = State(catalog, self._clock, Journal(self.store, self._clock))
        self.sessions = Sessions(self._clock, self.state.timers, session_timeout_ms)
        self.scheduling = Scheduling(self.state)
        self.flow = Flow(self.state, self.sessions, self.scheduling)
        self.attempts = Attempts(self.state, self.sessions, self.scheduling, self.flow)
        self.sessions.lost = self.attempts.lose_session
        self.scheduling.expired = self.attempts.expire
        Recovery(self.state, self.scheduling, self.flow, self.attempts).run(self.store, session_timeout_ms)

    def register(self, body: Mapping[str, Any], caller: Caller = ANYONE) -> dict[str, Any]:
        """Open a session (O050 to O058)."""
        names = [contract["task_name"] for contract in body["contracts"]]
        caller.check_registration(body["worker_id"], body["runtime"], names)
        warnings = check_registration(body, self.state.catalog)
        session = self.sessions.open(body)
        return {
            "accepted": True,
            "worker_session_id": session.id,
            "heartbeat_interval_ms": heartbeat_interval_ms(session.timeout_ms),
            "session_timeout_ms": session.timeout_ms,
            "warnings": warnings,
        }

    def poll(self, session_id: str, caller: Caller = ANYONE, *, is_contact: bool = True) -> dict[str, Any] | None:
        """Return an assignment, or None when nothing matches now (O060 to O067).

        ``is_contact`` is false when a poll that already waits is looked at again.
        """
        session = self._session(session_id, caller, is_contact=is_contact)
        assignment = self.attempts.dispatch(session)
        self.state.journal.commit()
        return assignment

    def heartbeat(self, session_id: str, caller: Caller = ANYONE) -> dict[str, Any]:
        """Keep a session alive and tell it, once, what to stop (O080 to O084)."""
        session = self._session(session_id, caller)
        cancel, session.cancel = session.cancel, []
        return {"accepted": True, "cancel": cancel}

    def unregister(self, session_id: str, caller: Caller = ANYONE) -> dict[str, Any]:
        """Close a session; what it held is delivered again at once (O110 to O112)."""
        session = self.sessions.get(session_id, text="unknown worker session")
        caller.check_session(session.worker_id)
        self.sessions.close(session, "worker unregistered")
        self.state.journal.commit()
        return dict(_ACCEPTED)

    def complete(self, token: str, output: Any = None, caller: Caller = ANYONE) -> dict[str, Any]:
        """Take a success (O090 to O093, O120 to O126)."""
        found = self._reported(token, caller)
        if found is None:
            return _refused(UNKNOWN_TOKEN)
        execution, step, delivery = found
        if step.is_resolved:
            return self._ignored(execution, step, token, "succeeded", DUPLICATE)
        output = execution.contract(step).fill_in(output)
        if text := self.attempts.output_mismatch(execution, step, output):
            if step.current is not delivery:
                return self._ignored(execution, step, token, "failed", REASON_CONTRACT)
            self.attempts.refuse_output(execution, step, text)
        else:
            self.attempts.succeed(execution, step, output)
        self.state.journal.commit()
        return _refused(REASON_CONTRACT) if text else dict(_ACCEPTED)

    def fail(self, token: str, error: Mapping[str, Any], caller: Caller = ANYONE) -> dict[str, Any]:
        """Take a failure: ``error`` has code, message, retryable and perhaps details (O100 to O105, O127)."""
        if not error["code"]:
            raise RuntimeRefusalError(400, "INVALID_REQUEST", "error_code must not be empty")
        found = self._reported(token, caller)
        if found is None:
            return _refused(UNKNOWN_TOKEN)
        execution, step, delivery = found
        if step.is_resolved:
            return self._ignored(execution, step, token, "failed", DUPLICATE)
        if step.current is not delivery:
            return self._ignored(execution, step, token, "failed", REASON_STALE)
        self.attempts.fail(execution, step, dict(error))
        self.state.journal.commit()
        return dict(_ACCEPTED)

    def start(
        self, workflow: str, value: Any = None, execution_id: str | None = None, *, version: str | None = None
    ) -> dict[str, Any]:
        """Start an execution; the same id, workflow and input once more is not an error but starts nothing (O220)."""
        definition = self.state.catalog.workflow(workflow, version)
        if definition is None:
            raise RuntimeRefusalError(404, "UNKNOWN_WORKFLOW", _unknown(workflow, version, self.state.catalog))
        value = {} if value is None else value
        if mismatch := find_mismatch(value, definition.input):
            text = f"input of workflow `{workflow}` does not match its declaration at {mismatch}"
            raise RuntimeRefusalError(400, "INVALID_REQUEST", text)
        execution_id = execution_id or str(uuid.uuid4())
        if known := self.state.executions.get(execution_id):
            if known.workflow != workflow or known.input != value:
                text = f"execution `{execution_id}` exists with another workflow or input"
                raise RuntimeRefusalError(409, "EXECUTION_EXISTS", text)
            return {"execution_id": execution_id, "created": False}
        started = self.state.journal.event(
            execution_id,
            "WorkflowStarted",
            workflow=workflow,
            version=definition.version,
            input=value,
            definition_hash=definition.definition_hash,
        )
        execution = self.state.executions[execution_id] = Execution(started, definition)
        self.flow.watch_timeout(execution)
        self.flow.advance(execution)
        self.state.journal.commit()
        return {"execution_id": execution_id, "created": True}

    def cancel(self, execution_id: str, reason: str = "") -> Execution:
        """Ask an execution to end; attempts in flight are waited for (O140, O141, O217)."""
        execution = self.state.execution(execution_id)
        if not execution.is_finished and not execution.is_aborting:
            self.state.journal.record(execution, "CancelRequested", reason=reason)
            self.flow.abort(execution)
            self.state.journal.commit()
        return execution

    def tick(self) -> None:
        """Let everything happen that is due: session expiry, deadlines, retries, the end of the restart's grace."""
        for action in self.state.timers.take_due(self._clock.monotonic()):
            action()
        self.state.journal.commit()

    def _session(self, session_id: str, caller: Caller, *, is_contact: bool = True) -> Session:
        session = self.sessions.get(session_id)
        caller.check_session(session.worker_id)
        if is_contact:
            self.sessions.touch(session)
        return session

    def _reported(self, token: str, caller: Caller) -> tuple[Execution, StepState, Delivery] | None:
        if not token:
            raise RuntimeRefusalError(400, "INVALID_REQUEST", "token must not be empty")
        found = self.state.find_delivery(token)
        if found is None:
            return None
        delivery = found[2]
        caller.check_token(delivery.worker_id)
        if session := self.sessions.find(delivery.session_id):
            self.sessions.touch(session)
        return found

    def _ignored(self, execution: Execution, step: StepState, token: str, outcome: str, reason: str) -> dict[str, Any]:
        self.state.journal.record(execution, "StaleResultIgnored", step=step.name, token=token, outcome=outcome)
        self.state.journal.commit()
        return _refused(reason)


def _unknown(name: str, version: str | None, catalog: Catalog) -> str:
    """Return what to say of a workflow that is not registered, with the names or the versions that are."""
    since = "; contracts are read when the runtime starts, so start it again after a change of CONTRACTS"
    if version is not None and catalog.is_workflow(name):
        versions = [known for workflow, known in catalog.workflows if workflow == name]
        return f"no version {version} of workflow `{name}` is registered{instead(version, versions)}{since}"
    return f"no workflow `{name}` is registered{instead(name, [known for known, _ in catalog.workflows])}{since}"


def _refused(reason: str) -> dict[str, Any]:
    return {"accepted": False, "reason": reason}

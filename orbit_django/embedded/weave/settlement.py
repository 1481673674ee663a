"""Outcomes are taken in, in a fixed order: whose lease, what was said before, whether it still counts, what it says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from orbit_django.embedded.weave.access import Caller
from orbit_django.embedded.weave.classification import reason_to_reject
from orbit_django.embedded.weave.leases import Leases
from orbit_django.embedded.weave.problems import ProblemError, forbidden, invalid, no_lease
from orbit_django.embedded.weave.records import OVER, Attempt, Receipt, Run, Task
from orbit_django.embedded.weave.runs import Runs
from orbit_django.embedded.weave.schemas import matches
from orbit_django.embedded.weave.state import State, timestamp
from orbit_django.embedded.weave.values import check_budget, digest

RUN_BUDGET_BYTES = 32 * 1024 * 1024
_OMISSION = {"path": "/accepted_output_hash", "reason": "uncertain_derived"}


class Settlement:
    """Writes receipts; at most one for each completion id of a task, and one for each of its generations."""

    def __init__(self, state: State, leases: Leases, runs: Runs) -> None:
        self._state = state
        self._leases = leases
        self._runs = runs
        self.run_budget = RUN_BUDGET_BYTES
        self.before_write: Callable[[], None] = lambda: None  # what takes time between the last check and the commit

    def complete(self, caller: Caller, body: dict[str, Any]) -> dict[str, Any]:
        """Take a success."""
        task, attempt = self._leases.proven(caller, body["lease"], "task.complete")
        return self._settle(task, attempt, body["completion_id"], ("completed", body["output"]))

    def fail(self, caller: Caller, body: dict[str, Any]) -> dict[str, Any]:
        """Take a failure."""
        task, attempt = self._leases.proven(caller, body["lease"], "task.complete")
        return self._settle(task, attempt, body["error"]["completion_id"], ("failed", body["error"]))

    def _settle(self, task: Task, attempt: Attempt, completion_id: str, said: tuple[str, Any]) -> dict[str, Any]:
        if prior := self._state.receipts.get(f"{task.id}:{completion_id}"):
            return self._replayed(prior, attempt, self._runs.of(task), said)
        status, content = said
        size = check_budget(content)
        reason = self._reason_to_reject(task, content) if status == "completed" else None
        receipt = Receipt(task.id, attempt.generation, completion_id, status, self._state.now(), _print(said))
        if self._is_control_revoked(task, attempt):
            receipt.status, attempt.state = "ignored", "control_revoked_receipted"
        elif not self._may_settle(task, attempt):
            raise no_lease()
        if reason:
            receipt.status, receipt.reason_code, receipt.accepted_output_hash = "rejected", reason, None
        if receipt.status in {"completed", "failed"}:
            self._check_content(task, content, size if status == "completed" else None)
        if receipt.status != "ignored" and attempt.state == "active":
            self._check_in_time(task, attempt)
            self._apply(task, attempt, receipt, content)
        self._state.save(receipt, attempt)
        self._state.commit()
        return receipt_view(receipt)

    def _replayed(self, prior: Receipt, attempt: Attempt, run: Run, said: tuple[str, Any]) -> dict[str, Any]:
        is_same_generation = prior.generation == attempt.generation
        if prior.status == "rejected" and is_same_generation:
            return receipt_view(prior)
        if run.is_blocked and is_same_generation:
            return unavailable_view(prior)
        check_budget(said[1])
        if not is_same_generation or prior.accepted_output_hash != _print(said):
            raise ProblemError(409, "WV-COMPLETION-CONFLICT")
        return receipt_view(prior)

    def _is_control_revoked(self, task: Task, attempt: Attempt) -> bool:
        is_over = self._runs.of(task).status in {"failed", "cancelled"} and task.status == "cancelled"
        return is_over and attempt.state == "control_revoked" and attempt.generation == task.generation

    def _may_settle(self, task: Task, attempt: Attempt) -> bool:
        return self._runs.of(task).status not in OVER and self._leases.is_live(task, attempt)

    def _schemas(self, task: Task) -> tuple[Any, Any]:
        """Return the output schemas of the Action and of the capability."""
        capability = self._state.releases[task.release_id].capability(task.capability)
        return task.output_schema, capability["outputSchema"] if capability else True

    def _reason_to_reject(self, task: Task, output: Any) -> str | None:
        return reason_to_reject(output, *self._schemas(task))

    def _check_content(self, task: Task, content: Any, output_size: int | None) -> None:
        """Refuse an output that does not match, or that makes the run's state too large; nothing is written."""
        if output_size is None:
            return
        if not all(matches(content, schema) for schema in self._schemas(task)):
            raise invalid()
        if self._runs.of(task).state_bytes + output_size > self.run_budget:
            raise ProblemError(429, "WV-RUNTIME-LIMIT")

    def _check_in_time(self, task: Task, attempt: Attempt) -> None:
        self.before_write()
        if not self._leases.is_live(task, attempt):
            raise forbidden()  # not a 409: so it is shown when time runs out between the check and the commit

    def _apply(self, task: Task, attempt: Attempt, receipt: Receipt, content: Any) -> None:
        attempt.state = receipt.status
        if receipt.status == "completed":
            task.output, task.status = content, "completed"
            run = self._runs.of(task)
            run.state_bytes += check_budget(content)
            self._state.save(task)
            self._runs.settle(run)
        elif receipt.status == "failed":
            task.failure = content
            self._runs.raise_incident(task, "WV-TASK-FAILED", "failed")
        else:
            self._runs.raise_incident(task, str(receipt.reason_code), "incident")


def _print(said: tuple[str, Any]) -> str:
    """Return the fingerprint of an outcome."""
    return digest({"status": said[0], "output": said[1]})


def receipt_view(receipt: Receipt) -> dict[str, Any]:
    """Return a receipt as the wire shows it."""
    shown = _identity(receipt) | {"accepted_output_hash": receipt.accepted_output_hash}
    return shown | ({"reason_code": receipt.reason_code} if receipt.status == "rejected" else {})


def unavailable_view(receipt: Receipt) -> dict[str, Any]:
    """Return the form of a receipt whose content cannot be compared any more."""
    return _identity(receipt) | {"unavailable": True, "payload_match": "unavailable", "omissions": [dict(_OMISSION)]}


def _identity(receipt: Receipt) -> dict[str, Any]:
    return {
        "task_id": receipt.task_id,
        "generation": receipt.generation,
        "completion_id": receipt.completion_id,
        "accepted_at": timestamp(receipt.accepted_at),
        "status": receipt.status,
    }

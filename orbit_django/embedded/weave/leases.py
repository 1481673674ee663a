"""Leases: claimed, checked and renewed, by the server's clock."""

from __future__ import annotations

import heapq
import hmac
import secrets
from typing import Any

from orbit_django.embedded.weave.access import Caller
from orbit_django.embedded.weave.problems import forbidden, no_lease, not_found
from orbit_django.embedded.weave.records import Attempt, Instance, Run, Task
from orbit_django.embedded.weave.state import State, hashed, timestamp

_MOST_CANDIDATES = 100
_PRESENCE_STEP_SECONDS = 5
Proof = dict[str, Any]


class Leases:
    """Hands tasks out and knows whose they are."""

    def __init__(self, state: State, lease_seconds: float) -> None:
        self._state = state
        self.lease_seconds = lease_seconds

    def claim(self, caller: Caller, body: dict[str, Any]) -> list[dict[str, Any]]:
        """Lease up to ``limit`` tasks that fit the instance, in the order of their ids."""
        instance = self.instance(caller, body["worker_id"], "task.claim")
        self._note_presence(instance)
        room = 0 if instance.is_draining else instance.capacity - len(list(self._state.live_leases(instance.id)))
        chosen = [task for task in self._candidates(instance) if self._is_claimable(task)]
        leases = [self._lease(task, instance) for task in chosen[: max(0, min(room, body["limit"]))]]
        self._state.commit()
        return leases

    def heartbeat(self, caller: Caller, proof: Proof) -> dict[str, Any]:
        """Renew a lease from now on and return the whole of it; the proof stays as it is."""
        task, attempt = self.held(caller, proof, "task.heartbeat")
        attempt.expires_at = self._ends_at(task)
        self._state.save(attempt)
        self._state.commit()
        return lease_view(task, attempt, proof["token"])

    def instance(self, caller: Caller, worker_id: str, right: str) -> Instance:
        """Return an instance that is the caller's own, in its present rights."""
        instance = self._state.instances.get(worker_id)
        if instance is None or instance.scope != caller.scope or instance.is_revoked:
            raise no_lease()
        if instance.principal_id != caller.principal.id:
            raise forbidden()
        caller.check(right, instance.release_id, *instance.task_types)
        return instance

    def proven(self, caller: Caller, proof: Proof, right: str) -> tuple[Task, Attempt]:
        """Return whose lease it is or was: everything is checked but its time and its state."""
        task = self._state.tasks.get(proof["task_id"])
        if task is None or task.scope != caller.scope:
            raise not_found()
        attempt = self._state.attempt(task.id, proof["generation"])
        if attempt is None:
            raise no_lease()
        instance = self.instance(caller, proof["owner"], right)
        if task.capability not in instance.task_types and instance.id == attempt.worker_id:
            raise forbidden()
        is_token = hmac.compare_digest(hashed(proof["token"]), attempt.token_hash)
        if attempt.worker_id != instance.id or not is_token or instance.release_id != task.release_id:
            raise no_lease()
        return task, attempt

    def held(self, caller: Caller, proof: Proof, right: str) -> tuple[Task, Attempt]:
        """Return a lease that is in force, in a run that goes on."""
        task, attempt = self.proven(caller, proof, right)
        run = self._state.runs[task.run_id]
        if not self.is_live(task, attempt) or not is_going_on(run):
            raise no_lease()
        return task, attempt

    def is_live(self, task: Task, attempt: Attempt) -> bool:
        """Say whether an attempt is the latest one and its time is not over."""
        is_current = attempt.generation == task.generation and attempt.state == "active" and task.status == "leased"
        return is_current and self._state.now() < min(attempt.expires_at, task.deadline)

    def _ends_at(self, task: Task) -> float:
        return min(self._state.now() + self.lease_seconds, task.deadline)

    def _note_presence(self, instance: Instance) -> None:
        if self._state.now() - instance.last_seen_at >= _PRESENCE_STEP_SECONDS:
            instance.last_seen_at = self._state.now()
            self._state.save(instance)

    def _candidates(self, instance: Instance) -> list[Task]:
        now = self._state.now()
        tasks = (self._state.tasks[task_id] for task_id in self._state.ready)
        fitting = (
            task.id
            for task in tasks
            if task.release_id == instance.release_id
            and task.capability in instance.task_types
            and task.retry_at <= now
            and not self._state.runs[task.run_id].is_blocked
        )
        return [self._state.tasks[task_id] for task_id in heapq.nsmallest(_MOST_CANDIDATES, fitting)]

    def _is_claimable(self, task: Task) -> bool:
        return is_going_on(self._state.runs[task.run_id]) and self._state.now() < task.deadline

    def _lease(self, task: Task, instance: Instance) -> dict[str, Any]:
        token = secrets.token_urlsafe(32)
        task.generation += 1
        task.status = "leased"
        now = self._state.now()
        attempt = Attempt(task.id, task.generation, instance.id, hashed(token), now, self._ends_at(task))
        self._state.save(task, attempt)
        return lease_view(task, attempt, token)


def is_going_on(run: Run) -> bool:
    """Say whether a run hands out and renews leases."""
    return run.status == "waiting" and not run.is_paused and not run.is_blocked


def lease_view(task: Task, attempt: Attempt, token: str) -> dict[str, Any]:
    """Return a lease as the wire shows it."""
    proof = {"task_id": task.id, "generation": attempt.generation, "owner": attempt.worker_id, "token": token}
    return {
        "proof": proof,
        "input": task.input,
        "operation_key": task.operation_key,
        "deadline": timestamp(task.deadline),
        "expires_at": timestamp(attempt.expires_at),
        "capability": task.capability,
        "worker_release_id": task.release_id,
    }

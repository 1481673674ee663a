"""What a task may know of its connection, and the secrets that it may ask for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from orbit_django.embedded.weave.access import Caller, new_id
from orbit_django.embedded.weave.leases import Leases, Proof
from orbit_django.embedded.weave.problems import ProblemError, forbidden
from orbit_django.embedded.weave.records import Connection, CredentialAudit, Task
from orbit_django.embedded.weave.state import State, timestamp


@dataclass(frozen=True, slots=True)
class Allowed:
    """One of the two looks at whether a secret may be given."""

    value: str
    expires_at: float  # of the lease, at this moment


class Connections:
    """Shows connections and gives secrets to those who hold a lease."""

    def __init__(self, state: State, leases: Leases) -> None:
        self._state = state
        self._leases = leases

    def context(self, caller: Caller, proof: Proof) -> dict[str, Any]:
        """Return the connection that the task is bound to, without its secrets."""
        task, attempt = self._leases.held(caller, proof, "task.claim")
        bound = self._state.connections.get(task.connection_revision_id or "")
        return {"connection": bound and _view(bound), "expires_at": timestamp(attempt.expires_at)}

    def look(self, caller: Caller, body: dict[str, Any]) -> Allowed:
        """Return what may be given now; made once before the provider is asked, and once after."""
        task, attempt = self._leases.held(caller, body["lease"], "credential.lease")
        connection = self._bound(task, body["connection_revision_id"])
        if not connection.is_handle_granted:
            raise ProblemError(422, "WV-CONNECTION")
        if body["slot"] not in connection.secrets:
            raise ProblemError(500, "WV-INTERNAL")
        return Allowed(connection.secrets[body["slot"]], attempt.expires_at)

    def give(self, caller: Caller, body: dict[str, Any], first: Allowed) -> dict[str, Any]:
        """Look once more and hand the secret out; it is noted, without its value."""
        second = self.look(caller, body)
        proof = body["lease"]
        audit = CredentialAudit(
            new_id(), proof["task_id"], proof["generation"], body["connection_revision_id"], body["slot"],
            self._state.now(),
        )  # fmt: skip
        self._state.save(audit)
        self._state.commit()
        expires_at = min(first.expires_at, second.expires_at)
        return {"value": first.value, "provider_version": None, "expires_at": timestamp(expires_at)}

    def _bound(self, task: Task, revision_id: str) -> Connection:
        release = self._state.releases[task.release_id]
        grant = self._state.grants.get(f"{release.id}:{revision_id}:{task.capability}")
        is_opted_in = task.capability in release.credential_capabilities
        connection = self._state.connections.get(revision_id)
        if connection is None or task.connection_revision_id != revision_id or not is_opted_in:
            raise forbidden()
        if grant is None or grant.is_revoked:
            raise forbidden()
        return connection


def _view(connection: Connection) -> dict[str, Any]:
    return {
        "revision_id": connection.revision_id,
        "connector": connection.connector,
        "config": connection.config,
        "allowed_destinations": connection.allowed_destinations,
        "secret_slots": sorted(connection.secrets),
    }

"""Operators and administrators: what a test does to instances, principals, tokens and connections beside the wire.

Each method takes and returns JSON types, so that it can be called over HTTP as well.
"""

from __future__ import annotations

from typing import Any

from orbit_django.embedded.weave.access import Access, new_id
from orbit_django.embedded.weave.records import Connection, ConnectionGrant, Instance, Principal
from orbit_django.embedded.weave.state import State


class Operators:
    """Gives and takes rights."""

    def __init__(self, state: State, access: Access, scope: str) -> None:
        self._state = state
        self._access = access
        self._scope = scope

    def drain(self, worker_id: str, *, is_draining: bool = True) -> None:
        """Keep an instance from getting more, or let it have more again."""
        instance = self._state.instances[worker_id]
        instance.is_draining = is_draining
        self._change_instance(instance)

    def revoke_instance(self, worker_id: str) -> None:
        """Take every right from an instance."""
        instance = self._state.instances[worker_id]
        instance.is_revoked = True
        self._change_instance(instance)

    def set_principal(self, name: str, *, is_active: bool = True, resources: list[str] | None = None) -> None:
        """Deactivate or activate the principal of a client id, and narrow its grants to resources."""
        principal = self._access.named(name)
        principal.is_active, principal.resources = is_active, resources
        self._access.add(principal)

    def add_principal(
        self, name: str, secret: str, roles: list[str], *, kind: str = "worker", scopes: list[str] | None = None
    ) -> str:
        """Make another client and return the principal's id."""
        return self._access.add(Principal(new_id(), name, secret, kind, roles, scopes or [self._scope])).id

    def issue_token(self, name: str, seconds: float = 3600, *, audience: str = "weave-api") -> str:
        """Return a bearer token for the principal of a client id."""
        return self._access.issue(self._access.named(name), seconds, audience)

    def expire_tokens(self, name: str | None = None) -> None:
        """Let every token, or those of one client id, expire now."""
        principal_id = self._access.named(name).id if name else None
        for token in self._state.access_tokens.values():
            if principal_id in {None, token.principal_id}:
                token.expires_at = self._state.now()
                self._state.save(token)
        self._state.commit()

    def add_connection(self, connector: str = "plain@1.0.0", **more: Any) -> str:
        """Make a revision of a connection (config, allowed_destinations, secrets by slot) and return its id."""
        defaults: dict[str, Any] = {"config": {}, "allowed_destinations": [], "secrets": {}}
        connection = Connection(revision_id=new_id(), connector=connector, **(defaults | more))
        self._state.save(connection)
        self._state.commit()
        return connection.revision_id

    def grant_connection(self, release_id: str, revision_id: str, capability: str, *, is_revoked: bool = False) -> None:
        """Grant a connection to a release and capability, or revoke that."""
        self._state.save(ConnectionGrant(release_id, revision_id, capability, is_revoked))
        self._state.commit()

    def set_handle_grant(self, revision_id: str, *, is_granted: bool) -> None:
        """Give or take the operator's own grant of a connection's secrets."""
        connection = self._state.connections[revision_id]
        connection.is_handle_granted = is_granted
        self._state.save(connection)
        self._state.commit()

    def _change_instance(self, instance: Instance) -> None:
        instance.revision += 1
        self._state.save(instance)
        self._state.commit()

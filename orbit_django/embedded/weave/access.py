"""Who calls, and what that principal may do; looked up anew for every call."""

from __future__ import annotations

import hmac
import secrets
import uuid
from dataclasses import dataclass

from orbit_django.embedded.weave.problems import forbidden, unauthenticated
from orbit_django.embedded.weave.records import AccessToken, Principal
from orbit_django.embedded.weave.state import State, hashed

AUDIENCE = "weave-api"
WORKER_RIGHTS = frozenset(
    {"worker.register", "task.claim", "task.heartbeat", "task.complete", "credential.lease"},
)
ROLES = {
    "worker": WORKER_RIGHTS,
    "deployer": frozenset({"release.activate"}),
    "viewer": frozenset({"worker.read"}),
    "administrator": frozenset({"connection.manage", "release.retire", "worker.read"}),
}


@dataclass(frozen=True, slots=True)
class Caller:
    """An authenticated principal in one scope, ``tenant/project/environment``."""

    principal: Principal
    scope: str

    def check(self, right: str, *resources: str) -> None:
        """Refuse with a 403 what the principal may not do, or not with each of these resources."""
        who = self.principal
        may = who.is_active and self.scope in who.scopes and any(right in ROLES.get(role, ()) for role in who.roles)
        if who.kind == "worker" and right not in WORKER_RIGHTS:
            may = False
        if who.resources is not None and not set(resources) <= set(who.resources):
            may = False
        if not may:
            raise forbidden()


class Access:
    """Principals and their tokens."""

    def __init__(self, state: State) -> None:
        self._state = state

    def add(self, principal: Principal) -> Principal:
        """Take in a principal, or replace the one of the same id."""
        self._state.save(principal)
        self._state.commit()
        return principal

    def named(self, name: str) -> Principal:
        """Return the principal of a client id; raises KeyError."""
        for principal in self._state.principals.values():
            if principal.name == name:
                return principal
        raise KeyError(name)

    def issue(self, principal: Principal, seconds: float, audience: str = AUDIENCE) -> str:
        """Return a new bearer token that lasts for ``seconds``."""
        token = secrets.token_urlsafe(32)
        self._state.save(AccessToken(hashed(token), principal.id, audience, self._state.now() + seconds))
        self._state.commit()
        return token

    def exchange(self, name: str, secret: str, seconds: float) -> str | None:
        """Return a token for a client's credentials, None when they are wrong."""
        try:
            principal = self.named(name)
        except KeyError:
            return None
        is_right = hmac.compare_digest(principal.secret.encode(), secret.encode())
        return self.issue(principal, seconds) if is_right and principal.is_active else None

    def caller(self, authorization: str | None, scope: str) -> Caller:
        """Return who calls; refuse with a 401 a token that is missing, unknown, expired or for somebody else."""
        scheme, blank, token = (authorization or "").partition(" ")
        if scheme.lower() != "bearer" or not blank or not token or token != token.strip():
            raise unauthenticated()
        known = self._state.access_tokens.get(hashed(token))
        if known is None or known.audience != AUDIENCE or known.expires_at <= self._state.now():
            raise unauthenticated()
        principal = self._state.principals.get(known.principal_id)
        if principal is None:
            raise unauthenticated()
        return Caller(principal, scope)


def new_id() -> str:
    """Return a new UUID."""
    return str(uuid.uuid4())

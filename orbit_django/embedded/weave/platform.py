"""The Weave server as a state machine: each call is one method that answers at once, by the given clock.

It has no threads, never waits and does no input or output but through its store. A refusal is a ProblemError. Bodies
are checked by ``forms`` before they come here. Calls must not overlap.
"""

from __future__ import annotations

from orbit_django.clock import Clock, SystemClock
from orbit_django.embedded.store import MemoryStore, Store
from orbit_django.embedded.weave.access import Access
from orbit_django.embedded.weave.connections import Connections
from orbit_django.embedded.weave.incidents import Incidents
from orbit_django.embedded.weave.leases import Leases
from orbit_django.embedded.weave.operators import Operators
from orbit_django.embedded.weave.records import Principal
from orbit_django.embedded.weave.recovery import Recovery
from orbit_django.embedded.weave.releases import Releases
from orbit_django.embedded.weave.runs import Runs
from orbit_django.embedded.weave.settlement import Settlement
from orbit_django.embedded.weave.state import State
from orbit_django.embedded.weave.views import Views
from orbit_django.embedded.weave.work import Work

TENANT = "00000000-0000-4000-8000-000000000001"
PROJECT = "00000000-0000-4000-8000-000000000002"
ENVIRONMENT = "00000000-0000-4000-8000-000000000003"
SCOPE = f"{TENANT}/{PROJECT}/{ENVIRONMENT}"
SECRET = "for-development"  # noqa: S105 (everybody knows it, and it opens nothing but this server)
CLIENTS = {"worker": ["worker"], "deployer": ["deployer", "viewer"], "administrator": ["administrator"]}
LEASE_SECONDS = 15.0


class Platform:
    """The rooms of the server, joined; each has the calls of its part of the protocol."""

    def __init__(
        self, *, store: Store | None = None, clock: Clock | None = None, lease_seconds: float = LEASE_SECONDS
    ) -> None:
        """Open the server on what the store holds; the clients of CLIENTS are made when they are missing."""
        self.state = State(store or MemoryStore(), clock or SystemClock())
        self.access = Access(self.state)
        runs = Runs(self.state)
        self.releases = Releases(self.state)
        self.leases = Leases(self.state, lease_seconds)
        self.settlement = Settlement(self.state, self.leases, runs)
        self.recovery = Recovery(self.state, runs)
        self.connections = Connections(self.state, self.leases)
        self.work = Work(self.state, runs)
        self.incidents = Incidents(self.state, runs)
        self.operators = Operators(self.state, self.access, SCOPE)
        self.views = Views(self.state)
        known = {principal.name for principal in self.state.principals.values()}
        for index, (name, roles) in enumerate(CLIENTS.items()):
            if name not in known:
                principal_id = f"00000000-0000-4000-8000-{16 + index:012d}"
                kind = "worker" if name == "worker" else "human"
                self.access.add(Principal(principal_id, name, SECRET, kind, roles, [SCOPE]))

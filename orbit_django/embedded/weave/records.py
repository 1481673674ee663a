"""What the Weave server keeps: plain records of JSON types, so that each can be stored as it is.

Times are seconds since the Unix epoch. A scope is ``tenant/project/environment``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

OVER: Final = frozenset({"completed", "failed", "cancelled"})  # statuses of a run that has ended


@dataclass(slots=True)
class Principal:
    """Somebody with a client id and a secret; a ``worker`` never uses anything but a worker's rights."""

    id: str
    name: str  # the client id at the token endpoint
    secret: str
    kind: str  # worker or human
    roles: list[str]
    scopes: list[str]
    resources: list[str] | None = None  # None: whatever the scope holds; else release ids and capabilities
    is_active: bool = True

    @property
    def key(self) -> str:
        """What it is stored under."""
        return self.id


@dataclass(slots=True)
class AccessToken:
    """An issued bearer token, by the hash of it."""

    token_hash: str
    principal_id: str
    audience: str
    expires_at: float

    @property
    def key(self) -> str:
        """What it is stored under."""
        return self.token_hash


@dataclass(slots=True)
class Release:
    """An admitted build with what it declares."""

    id: str
    scope: str
    image_digest: str
    capabilities: list[dict[str, Any]]
    credential_capabilities: list[str]
    connector_bindings: list[Any]

    @property
    def key(self) -> str:
        """What it is stored under."""
        return self.id

    def capability(self, name: str) -> dict[str, Any] | None:
        """Return the capability of the name ``type@version``."""
        return next((one for one in self.capabilities if capability_name(one) == name), None)


@dataclass(slots=True)
class Instance:
    """A registered worker process."""

    id: str
    scope: str
    release_id: str
    principal_id: str
    task_types: list[str]
    capacity: int
    is_revoked: bool = False
    is_draining: bool = False
    revision: int = 1
    last_seen_at: float = 0.0

    @property
    def key(self) -> str:
        """What it is stored under."""
        return self.id


@dataclass(slots=True)
class Run:
    """A workflow run, as much of it as a worker notices: branches that block each other."""

    id: str
    scope: str
    status: str = "waiting"  # waiting, suspended, completed, failed, cancelled
    is_paused: bool = False  # by a person
    is_blocked: bool = False  # by policy; for good
    incident: str | None = None  # of something else than the tasks here
    state_bytes: int = 0
    task_ids: list[str] = field(default_factory=list)

    @property
    def key(self) -> str:
        """What it is stored under."""
        return self.id


@dataclass(slots=True)
class Task:
    """One external operation of a run."""

    id: str
    scope: str
    run_id: str
    step: str
    capability: str  # type@version
    release_id: str
    input: Any
    side_effect: str  # read_only, idempotent, idempotency_key, non_idempotent
    retry: dict[str, float]  # maxAttempts, initialDelaySeconds, maxDelaySeconds
    deadline: float
    output_schema: Any  # of the Action; the capability has one of its own
    connection_revision_id: str | None = None
    status: str = "ready"  # ready, leased, completed, failed, incident, cancelled
    retry_at: float = 0.0
    generation: int = 0
    incident: str | None = None  # the code of what suspends the run
    failure: dict[str, Any] | None = None  # the last reported one
    output: Any = None

    @property
    def key(self) -> str:
        """What it is stored under."""
        return self.id

    @property
    def operation_key(self) -> str:
        """The key that all attempts share."""
        return f"{self.run_id}:{self.step}"


@dataclass(slots=True)
class Attempt:
    """One generation of a task.

    States: active, completed, failed, rejected, recovered, revoked, control_revoked, control_revoked_receipted,
    policy_blocked.
    """

    task_id: str
    generation: int
    worker_id: str
    token_hash: str
    claimed_at: float
    expires_at: float
    state: str = "active"

    @property
    def key(self) -> str:
        """What it is stored under."""
        return f"{self.task_id}:{self.generation}"


@dataclass(slots=True)
class Receipt:
    """The durable acknowledgment of one delivered outcome."""

    task_id: str
    generation: int
    completion_id: str
    status: str  # completed, failed, ignored, rejected
    accepted_at: float
    accepted_output_hash: str | None = None
    reason_code: str | None = None

    @property
    def key(self) -> str:
        """What it is stored under."""
        return f"{self.task_id}:{self.completion_id}"


@dataclass(slots=True)
class Connection:
    """A revision of a connection that tasks may be bound to, with its secrets by slot."""

    revision_id: str
    connector: str  # name@version
    config: dict[str, Any]
    allowed_destinations: list[str]
    secrets: dict[str, str]
    is_handle_granted: bool = True  # the operator's own grant

    @property
    def key(self) -> str:
        """What it is stored under."""
        return self.revision_id


@dataclass(slots=True)
class ConnectionGrant:
    """The right of a release to use a connection for one capability."""

    release_id: str
    connection_revision_id: str
    capability: str
    is_revoked: bool = False

    @property
    def key(self) -> str:
        """What it is stored under."""
        return f"{self.release_id}:{self.connection_revision_id}:{self.capability}"


@dataclass(slots=True)
class CredentialAudit:
    """A secret that was handed out; never the secret."""

    id: str
    task_id: str
    generation: int
    connection_revision_id: str
    slot: str
    at: float

    @property
    def key(self) -> str:
        """What it is stored under."""
        return self.id


def capability_name(capability: dict[str, Any]) -> str:
    """Return ``type@version`` of a declared capability."""
    return f"{capability['taskType']}@{capability['taskVersion']}"

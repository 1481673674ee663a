"""The records in memory, over a store that keeps each change: the last version of a record is the one that counts."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any, Protocol

from orbit_django.clock import Clock
from orbit_django.embedded.store import Event, Store
from orbit_django.embedded.weave.records import (
    AccessToken,
    Attempt,
    Connection,
    ConnectionGrant,
    CredentialAudit,
    Instance,
    Principal,
    Receipt,
    Release,
    Run,
    Task,
)
from orbit_django.exceptions import ConfigurationError

_KINDS = (
    Principal, AccessToken, Release, Instance, Run, Task, Attempt, Receipt, Connection, ConnectionGrant,
    CredentialAudit,
)  # fmt: skip


class Record(Protocol):
    """Anything that is kept."""

    @property
    def key(self) -> str:
        """What it is stored under, among those of its class."""
        ...


class State:
    """Everything that the server knows."""

    def __init__(self, store: Store, clock: Clock) -> None:
        """Read what the store holds; raises ConfigurationError when it is of another server."""
        self.store = store
        self.clock = clock
        self.principals: dict[str, Principal] = {}
        self.access_tokens: dict[str, AccessToken] = {}
        self.releases: dict[str, Release] = {}
        self.instances: dict[str, Instance] = {}
        self.runs: dict[str, Run] = {}
        self.tasks: dict[str, Task] = {}
        self.attempts: dict[str, Attempt] = {}
        self.receipts: dict[str, Receipt] = {}
        self.connections: dict[str, Connection] = {}
        self.grants: dict[str, ConnectionGrant] = {}
        self.audits: dict[str, CredentialAudit] = {}
        self.ready: set[str] = set()  # ids of tasks that wait for a claim
        self.leased: set[str] = set()
        self.failed: set[str] = set()  # until recovery has decided
        self._tables: dict[str, tuple[type, dict[str, Any]]] = {
            kind.__name__: (kind, table) for kind, table in zip(_KINDS, self._every_table(), strict=True)
        }
        self._changed: dict[tuple[str, str], Any] = {}
        for event in store.events():
            self._load(event)

    def now(self) -> float:
        """Return the server's time."""
        return self.clock.wall()

    def save(self, *records: Record) -> None:
        """Take records in, new or changed; they are stored with the next commit."""
        for record in records:
            self._index(record)
            self._changed[type(record).__name__, record.key] = record

    def commit(self) -> None:
        """Store what has changed, all or none of it."""
        at_ms = int(self.now() * 1000)
        changed = self._changed.items()
        self.store.append([Event(key, f"weave.{kind}", at_ms, asdict(record)) for (kind, key), record in changed])
        self._changed = {}

    def attempt(self, task_id: str, generation: int) -> Attempt | None:
        """Return one attempt of a task."""
        return self.attempts.get(f"{task_id}:{generation}")

    def latest(self, task: Task) -> Attempt | None:
        """Return the newest attempt of a task."""
        return self.attempt(task.id, task.generation)

    def tasks_of(self, run: Run) -> list[Task]:
        """Return the tasks of a run."""
        return [self.tasks[task_id] for task_id in run.task_ids]

    def live_leases(self, worker_id: str) -> Iterator[Attempt]:
        """Yield the leases of an instance that are active and have not expired."""
        now = self.now()
        for task_id in self.leased:
            attempt = self.latest(self.tasks[task_id])
            if attempt and attempt.worker_id == worker_id and attempt.state == "active" and attempt.expires_at > now:
                yield attempt

    def _every_table(self) -> tuple[dict[str, Any], ...]:
        return (
            self.principals, self.access_tokens, self.releases, self.instances, self.runs, self.tasks, self.attempts,
            self.receipts, self.connections, self.grants, self.audits,
        )  # fmt: skip

    def _load(self, event: Event) -> None:
        name = event.kind.removeprefix("weave.")
        if name == event.kind or name not in self._tables:
            text = f"the database holds `{event.kind}`, which is not of a Weave server; give --db another file"
            raise ConfigurationError(text)
        self._index(self._tables[name][0](**event.data))

    def _index(self, record: Any) -> None:
        self._tables[type(record).__name__][1][record.key] = record
        if isinstance(record, Task):
            for status, ids in (("ready", self.ready), ("leased", self.leased), ("failed", self.failed)):
                (ids.add if record.status == status else ids.discard)(record.id)


def hashed(secret: str) -> str:
    """Return what is kept of a token."""
    return hashlib.sha256(secret.encode()).hexdigest()


def timestamp(at: float) -> str:
    """Return a moment as RFC 3339 writes it, in UTC."""
    return datetime.fromtimestamp(at, UTC).isoformat()

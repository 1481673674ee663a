"""Worker sessions: who is there, since when, and what each should stop (O050 to O058, O084, O131)."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from orbit_django.clock import Clock
from orbit_django.contracts import Catalog
from orbit_django.contracts.names import likely
from orbit_django.embedded.timers import Timers
from orbit_django.exceptions import RuntimeRefusalError
from orbit_django.logs import SteadyLogger
from orbit_django.protocol import RESERVED_PREFIX, Contract

_SHORTEST_INTERVAL_MS = 500
logger = SteadyLogger(logging.getLogger(__name__))


@dataclass(slots=True)
class Session:
    """One registration that is alive."""

    id: str
    worker_id: str
    runtime: str  # as announced
    contracts: frozenset[Contract]
    timeout_ms: int  # as answered
    contact: float  # monotonic seconds of the last sign of life
    cancel: list[str] = field(default_factory=list)  # tokens that the next heartbeat answer lists
    held: dict[str, tuple[str, str]] = field(default_factory=dict)  # token -> execution id and step in flight


@dataclass(slots=True)
class WorkerRecord:
    """What is shown of a worker that has ever registered since the start (O113)."""

    worker_id: str
    runtime: str
    sdk: str | None
    contracts: tuple[Contract, ...]
    last_contact_ms: int


class Sessions:
    """The live sessions. ``lost`` is called with each that ends, and why: it may still hold attempts."""

    def __init__(self, clock: Clock, timers: Timers, timeout_ms: int) -> None:
        self.timeout_ms = timeout_ms  # of sessions that are opened from now on
        self.lost: Callable[[Session, str], None] = lambda session, reason: None
        self.workers: dict[str, WorkerRecord] = {}
        self._live: dict[str, Session] = {}
        self._clock = clock
        self._timers = timers

    def __iter__(self) -> Iterator[Session]:
        return iter(tuple(self._live.values()))

    def find(self, session_id: str) -> Session | None:
        """Return a live session, or None."""
        return self._live.get(session_id)

    def get(self, session_id: str, *, text: str = "unknown or expired worker session; register again") -> Session:
        """Return a live session; raise 404 ``UNKNOWN_SESSION`` when there is none (O067, O083, O112)."""
        if session := self._live.get(session_id):
            return session
        raise RuntimeRefusalError(404, "UNKNOWN_SESSION", text)

    def open(self, body: Mapping[str, Any]) -> Session:
        """Open a session for a checked registration; never replaces another one (O050)."""
        contracts = tuple(_contracts(body))
        session = Session(
            str(uuid.uuid4()),
            body["worker_id"],
            body["runtime"],
            frozenset(contracts),
            self.timeout_ms,
            self._clock.monotonic(),
        )
        self._live[session.id] = session
        self.workers[session.worker_id] = WorkerRecord(
            session.worker_id, session.runtime, body.get("sdk"), contracts, self._now_ms()
        )
        self._watch(session)
        tasks = ", ".join(f"{contract.task_name} {contract.contract_version}" for contract in contracts)
        logger.info("a worker registered", extra={"worker": session.worker_id, "tasks": tasks})
        return session

    def touch(self, session: Session) -> None:
        """Note a sign of life."""
        session.contact = self._clock.monotonic()
        self.workers[session.worker_id].last_contact_ms = self._now_ms()

    def close(self, session: Session, reason: str) -> None:
        """End a session; its attempts become uncertain."""
        if self._live.pop(session.id, None):
            logger.info(
                "a session ended", extra={"worker": session.worker_id, "why": reason, "held": len(session.held)}
            )
            self.lost(session, reason)

    def _now_ms(self) -> int:
        return int(self._clock.wall() * 1000)

    def _watch(self, session: Session) -> None:
        self._timers.at(session.contact + session.timeout_ms / 1000, lambda: self._expire(session))

    def _expire(self, session: Session) -> None:
        if self._clock.monotonic() - session.contact >= session.timeout_ms / 1000:
            self.close(session, "worker session expired")
        else:
            self._watch(session)


def heartbeat_interval_ms(session_timeout_ms: int) -> int:
    """Return a sixth of the session timeout, at least 500 ms (O055)."""
    return max(_SHORTEST_INTERVAL_MS, session_timeout_ms // 6)


def check_registration(body: Mapping[str, Any], catalog: Catalog) -> list[str]:
    """Return the warnings for a registration, or refuse it with a 400 (O056, O057)."""
    if not body["worker_id"].strip():
        raise RuntimeRefusalError(400, "INVALID_REQUEST", "worker_id must not be blank")
    if not body["contracts"]:
        raise RuntimeRefusalError(400, "INVALID_REQUEST", "a worker must announce at least one task")
    warnings: list[str] = []
    for contract in _contracts(body):
        name = contract.task_name
        if name.startswith(RESERVED_PREFIX) or catalog.is_workflow(name):
            what = "a built-in task" if name.startswith(RESERVED_PREFIX) else "a child workflow"
            raise RuntimeRefusalError(400, "RESERVED_TASK", f"`{name}` is {what} and cannot be announced by a worker")
        warnings += _warning(contract, catalog)
    return warnings


def _warning(contract: Contract, catalog: Catalog) -> list[str]:
    used = catalog.versions_in_use(contract.task_name)
    if contract.contract_version in used:
        return []
    use = f"but registered workflows use {', '.join(used)}" if used else "but no registered workflow uses it"
    announced = f"`{contract.task_name}` is announced at version {contract.contract_version}"
    close = "" if used else likely(contract.task_name, {name for name, _ in catalog.tasks})
    meant = f"; did you mean `{close}`?" if close not in ("", contract.task_name) else ""
    return [f"{announced} {use}; this worker will not receive those tasks{meant}"]


def _contracts(body: Mapping[str, Any]) -> Iterator[Contract]:
    return (Contract(item["task_name"], item["contract_version"]) for item in body["contracts"])

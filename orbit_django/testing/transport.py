"""A binding for tests: it records what it is asked and answers what it was told, with no network."""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from typing import Any, NamedTuple

from orbit_django.protocol import Assignment, Kind, Receipt, Registration, Session


class Call(NamedTuple):
    """One recorded call: its name, and its arguments without time limits."""

    name: str
    arguments: tuple[Any, ...]


class RecordingTransport:
    """The contract of a binding with scripted answers.

    Unscripted calls succeed: register opens ``session-1``, ``session-2`` and so on, poll finds nothing, heartbeat
    cancels nothing, reports are accepted.
    """

    name = "recording"

    def __init__(self, server: str = "http://runtime.test") -> None:
        self.server = server
        self.calls: list[Call] = []
        self.is_closed = False
        self._answers: dict[str, deque[Any]] = defaultdict(deque)
        self._lock = threading.Lock()

    def script(self, name: str, *answers: Any) -> None:
        """Answer the next calls of this name so: an exception is raised, anything else returned."""
        with self._lock:
            self._answers[name].extend(answers)

    def named(self, name: str) -> list[tuple[Any, ...]]:
        """Return the arguments of the recorded calls of this name, in order."""
        with self._lock:
            return [call.arguments for call in self.calls if call.name == name]

    def register(self, registration: Registration) -> Session:
        """Record the call; by default open a new session."""
        number = len(self.named("register")) + 1
        session: Session = self._answer("register", Session(f"session-{number}", 5_000, 30_000), registration)
        return session

    def poll(self, session_id: str, wait_ms: int) -> Assignment | None:
        """Record the call; by default find no task."""
        assignment: Assignment | None = self._answer("poll", None, session_id, wait_ms)
        return assignment

    def heartbeat(self, session_id: str, *, timeout_seconds: float) -> tuple[str, ...]:
        """Record the call; by default cancel nothing."""
        cancelled: tuple[str, ...] = self._answer("heartbeat", (), session_id)
        return cancelled

    def check_report(self, kind: Kind, body: str) -> None:
        """Raise what was scripted; by default let every report pass."""
        with self._lock:
            answer = self._answers["check_report"].popleft() if self._answers["check_report"] else None
        if answer is not None:
            raise answer

    def send(self, kind: Kind, body: str) -> Receipt:
        """Record the call; by default accept the report."""
        receipt: Receipt = self._answer("send", Receipt(accepted=True), kind, body)
        return receipt

    def unregister(self, session_id: str, *, timeout_seconds: float) -> None:
        """Record the call; by default close the session."""
        self._answer("unregister", None, session_id)

    def close(self) -> None:
        """Remember having been closed."""
        self.is_closed = True

    def _answer(self, name: str, usual: Any, *arguments: Any) -> Any:
        with self._lock:
            self.calls.append(Call(name, arguments))
            answer = self._answers[name].popleft() if self._answers[name] else usual
        if isinstance(answer, BaseException):
            raise answer
        return answer

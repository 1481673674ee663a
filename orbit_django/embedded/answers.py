"""Requests and answers between the HTTP side and the rules, and the contract of whoever interferes with them."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

from orbit_django.embedded.callers import ANYONE, Caller, Credentials
from orbit_django.embedded.recorder import Recorder
from orbit_django.embedded.runtime import Runtime
from orbit_django.exceptions import RuntimeRefusalError
from orbit_django.protocol import API_VERSION

JSON = "application/json"
TEXT = "text/plain; charset=utf-8"
HTML = "text/html; charset=utf-8"


@dataclass(slots=True)
class Request:
    """One request, as read from the connection."""

    method: str
    path: str  # without the query
    query: dict[str, str]
    headers: Any  # looked up without regard to case
    body: bytes | None  # None: larger than the limit, and thrown away
    caller: Caller = ANYONE
    is_gone: Any = field(default=lambda: False)  # says whether the client has closed the connection

    @property
    def call(self) -> str:
        """The last word of a worker endpoint (``poll``, ``complete``, …), else ``other``."""
        is_worker = self.path.startswith(("/v1/workers/", "/v1/tasks/"))
        return self.path.rsplit("/", 1)[1] if is_worker else "other"


@dataclass(frozen=True, slots=True)
class Answer:
    """What goes back."""

    status: int
    body: bytes = b""
    content_type: str | None = None
    version: str | None = API_VERSION  # None before authentication (O013)
    headers: tuple[tuple[str, str], ...] = ()
    is_cut: bool = False  # half of the body is sent, then the connection closes


def json_answer(value: Any, status: int = 200) -> Answer:
    """Return an answer that holds a JSON value."""
    return Answer(status, json.dumps(value, separators=(",", ":")).encode(), JSON)


def text_answer(status: int, text: str) -> Answer:
    """Return a plain-text answer (O017)."""
    return Answer(status, text.encode(), TEXT)


def error_answer(error: RuntimeRefusalError) -> Answer:
    """Return the error object of a refusal (O016)."""
    return json_answer({"error": {"code": error.code, "message": error.message}}, error.status)


class Host(Protocol):
    """What a connection, or a fault, needs of the server."""

    credentials: Credentials
    faults: Interference | None
    lock: threading.RLock
    max_body: int
    recorder: Recorder | None
    runtime: Runtime  # touched only with the lock held
    session_timeout_ms: int  # of sessions that are opened from now on

    def changing(self) -> AbstractContextManager[Runtime]:
        """Hold the lock for one look at the runtime or one change, then serve those who waited for what it changed."""
        ...

    def wait(self, look: Callable[[], Any], wait_ms: int, is_gone: Callable[[], bool]) -> Any:
        """Return what ``look`` finds within the time, or None."""
        ...

    def pause(self, seconds: float) -> None:
        """Hold the calling thread."""
        ...

    def go_away(self, seconds: float, *, is_restart: bool = False) -> None:
        """Refuse connections for a time, from now on; return at once."""
        ...


class Interference(Protocol):
    """Something that disturbs the runtime on purpose, called without the lock.

    Both methods may raise ClosedError, and then the connection is closed without an answer.
    """

    def before(self, request: Request, host: Host) -> Answer | None:
        """Act before an authenticated request is processed; an answer returned here is sent instead."""
        ...

    def after(self, request: Request, answer: Answer, host: Host) -> Answer:
        """Return the answer to send after the request was processed."""
        ...

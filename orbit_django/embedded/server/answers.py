"""Requests and answers between the HTTP side and the rules, and the contract of whoever interferes with them."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

from orbit_django.embedded.callers import ANYONE, Caller, Credentials
from orbit_django.embedded.runtime import Runtime
from orbit_django.exceptions import RuntimeRefusalError

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
    is_authenticated: bool = True  # the version header comes only after authentication (O013)


def json_answer(value: Any, status: int = 200) -> Answer:
    """Return an answer that holds a JSON value."""
    return Answer(status, json.dumps(value, separators=(",", ":")).encode(), JSON)


def text_answer(status: int, text: str) -> Answer:
    """Return a plain-text answer (O017)."""
    return Answer(status, text.encode(), TEXT)


def error_answer(error: RuntimeRefusalError) -> Answer:
    """Return the error object of a refusal (O016)."""
    return json_answer({"error": {"code": error.code, "message": error.message}}, error.status)


class Interference(Protocol):
    """Something that disturbs the runtime on purpose; a call is what ``Request.call`` says."""

    def before(self, call: str, runtime: Runtime) -> tuple[int, str, bytes] | None:
        """Act before a request is processed; a status, media type and body returned here are sent instead."""
        ...

    def after(self, call: str, status: int, body: bytes, runtime: Runtime) -> bytes | None:
        """Return the body to send after processing, or None to close the connection without an answer."""
        ...

    def pause(self, call: str) -> float:
        """Return for how many seconds to hold the answer of a request that was processed."""
        ...


class Host(Protocol):
    """What a connection needs of the server that it belongs to."""

    credentials: Credentials
    faults: Interference | None
    lock: threading.RLock
    max_body: int
    runtime: Runtime  # touched only with the lock held

    def changing(self) -> AbstractContextManager[Runtime]:
        """Hold the lock for one call of the runtime, then serve those who waited for what it changed."""
        ...

    def wait(self, look: Callable[[], Any], wait_ms: int, is_gone: Callable[[], bool]) -> Any:
        """Return what ``look`` finds within the time, or None."""
        ...

    def pause(self, seconds: float) -> None:
        """Hold the calling thread."""
        ...

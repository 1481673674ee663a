"""Requests and answers between the HTTP side, the rules and the faults."""

from __future__ import annotations

import json
import uuid
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from orbit_django.embedded.weave.platform import Platform
from orbit_django.embedded.weave.problems import ProblemError

JSON = "application/json"
PROBLEM = "application/problem+json"
HTML = "text/html; charset=utf-8"
WIRE_VERSION = "weave/api-v1"


@dataclass(slots=True)
class Request:
    """One request, as read from the connection."""

    method: str
    path: str
    headers: Any  # looked up without regard to case
    body: bytes
    call: str  # admit, register, claim, heartbeat, complete, fail, context, credentials, token, control, or other


@dataclass(frozen=True, slots=True)
class Answer:
    """What goes back."""

    status: int
    body: bytes = b""
    content_type: str = JSON
    headers: tuple[tuple[str, str], ...] = ()
    is_cut: bool = False  # half of the body is sent, then the connection closes


class Host(Protocol):
    """What a request, or a fault, needs of the server."""

    def changing(self) -> AbstractContextManager[Platform]:
        """Hold the lock around the state machine."""
        ...

    def executing(self) -> AbstractContextManager[None]:
        """Take one of the places for requests that execute, or refuse."""
        ...

    def transaction(self, scope: str) -> AbstractContextManager[Platform]:
        """Hold the lock of a project, which is waited for only briefly, and then that of the state machine."""
        ...

    def hold_project(self, seconds: float) -> None:
        """Keep the locks of all projects for a time, as another process would; return at once."""
        ...

    def ask_provider(self) -> None:
        """Let the secret provider be asked."""
        ...

    def pause(self, seconds: float) -> None:
        """Hold the calling thread."""
        ...

    def advance(self, seconds: float) -> None:
        """Move the server's clock forward."""
        ...


class Interference(Protocol):
    """Something that disturbs the server on purpose; both methods may raise ClosedError."""

    def before(self, request: Request, host: Host) -> Answer | None:
        """Act before a request is executed; an answer returned here is sent instead."""
        ...

    def after(self, request: Request, answer: Answer, host: Host) -> Answer:
        """Return the answer to send after the request was executed."""
        ...


def json_answer(value: Any, status: int = 200, *headers: tuple[str, str]) -> Answer:
    """Return an answer that holds a JSON value."""
    return Answer(status, json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode(), headers=headers)


def problem_answer(error: ProblemError) -> Answer:
    """Return the problem body of a refusal."""
    request_id = str(uuid.uuid4())
    problem = {
        "status": error.status,
        "code": error.code,
        "message": error.message,
        "request_id": request_id,
        "diagnostics": [],
    }
    if error.result is not None:
        problem["result"] = error.result
    body = json.dumps(problem, separators=(",", ":")).encode()
    return Answer(error.status, body, PROBLEM, (*error.headers, ("X-Weave-Request-ID", request_id)))

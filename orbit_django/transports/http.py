"""The HTTP binding: the six calls of the worker protocol as JSON over POST.

It turns statuses and bodies into words of the protocol and decides nothing: no retries, no waiting.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable
from functools import lru_cache, partial
from http import HTTPStatus
from typing import Any, TypeVar

from orbit_django.exceptions import NoAnswerError, PayloadError, TransportError, UnknownSessionError
from orbit_django.logs import SteadyLogger
from orbit_django.protocol import API_VERSION, MAX_WAIT_MS, Assignment, Kind, Receipt, Registration, Session
from orbit_django.transports.answers import VERSION_HEADER, Answer, read_json
from orbit_django.transports.connection import HttpConnection
from orbit_django.transports.credential import token_of
from orbit_django.transports.salvage import salvage

logger = SteadyLogger(logging.getLogger(__name__))

Word = TypeVar("Word")

CONNECT_SECONDS = 5.0
CALL_SECONDS = 10.0  # for register and the two reports
POLL_EXTRA_SECONDS = 15.0  # beyond wait_ms (O063)
UNKNOWN_SESSION = "UNKNOWN_SESSION"
REPORT_PATHS = {Kind.COMPLETE: "/v1/tasks/complete", Kind.FAIL: "/v1/tasks/fail"}

_has_warned = threading.Event()  # one strange version header in a process is news, the rest is noise


class HttpTransport:
    """The contract of a binding over HTTP; takes what HttpConnection takes."""

    name = "http"
    carries_all = True  # what is committed is JSON, and was measured

    def __init__(self, server: str, *, credential: Callable[[], str | None], **options: Any) -> None:
        self._connection = HttpConnection(server, credential=credential, **options)
        self.server = self._connection.server

    def register(self, registration: Registration) -> Session:
        """Open a session (O050 to O057)."""
        contracts = [
            {"task_name": contract.task_name, "contract_version": contract.contract_version}
            for contract in registration.contracts
        ]
        body = {
            "worker_id": registration.worker_id,
            "runtime": registration.runtime,
            "contracts": contracts,
            "sdk": registration.sdk,
        }
        answer = self._post("/v1/workers/register", json.dumps(body), CALL_SECONDS)
        return self._read(answer, Session.from_wire)

    def poll(self, session_id: str, wait_ms: int) -> Assignment | None:
        """Wait up to ``wait_ms`` for a task; None when there was none (O060 to O067)."""
        wait_ms = min(max(wait_ms, 1), MAX_WAIT_MS)
        answer = self._post(
            "/v1/workers/poll", _poll_body(session_id, wait_ms), wait_ms / 1000 + POLL_EXTRA_SECONDS, is_frequent=True
        )
        if answer.status == HTTPStatus.NO_CONTENT:
            return None
        self._check_session(answer)
        return self._read(answer, Assignment.from_wire, value=_assigned)

    def heartbeat(self, session_id: str, *, timeout_seconds: float) -> tuple[str, ...]:
        """Keep the session alive; return the tokens of attempts to stop (O080 to O084)."""
        answer = self._post("/v1/workers/heartbeat", _session_body(session_id), timeout_seconds)
        self._check_session(answer)
        return self._read(answer, _cancelled)

    def check_report(self, kind: Kind, body: str) -> None:
        """Let every report pass."""

    def send(self, kind: Kind, body: str) -> Receipt:
        """Report an attempt with exactly this JSON text (O090 to O102)."""
        answer = self._post(REPORT_PATHS[kind], body, CALL_SECONDS, is_frequent=True)
        return self._read(answer, Receipt.from_wire, report=body)

    def unregister(self, session_id: str, *, timeout_seconds: float) -> None:
        """Close a session (O110 to O112)."""
        answer = self._post("/v1/workers/unregister", _session_body(session_id), timeout_seconds)
        self._check_session(answer)
        self._read(answer, _anything)

    def close(self) -> None:
        """Let go of every connection."""
        self._connection.close()

    def _post(self, path: str, body: str, total_seconds: float, *, is_frequent: bool = False) -> Answer:
        call = self._connection.post if is_frequent else partial(self._connection.call, "POST")
        answer = call(path, body, connect_seconds=min(CONNECT_SECONDS, total_seconds), total_seconds=total_seconds)
        _check_version(answer)
        return answer

    def _check_session(self, answer: Answer) -> None:
        """Raise UnknownSessionError when the runtime itself says so; a proxy's 404 says nothing (O150)."""
        if answer.status != HTTPStatus.NOT_FOUND:
            return
        code, message = answer.error() or ("", "")
        if code == UNKNOWN_SESSION:
            raise UnknownSessionError(self._connection.redact(message)[:500])

    def _read(
        self,
        answer: Answer,
        read: Callable[[object], Word],
        *,
        report: str = "",
        value: Callable[[Answer], object] = Answer.value,
    ) -> Word:
        if report and HTTPStatus.OK < answer.status < HTTPStatus.MULTIPLE_CHOICES:
            raise NoAnswerError(f"{answer.status} is no acknowledgement of a report")
        if answer.status != HTTPStatus.OK:
            raise self._failure(answer, report)
        try:
            return read(value(answer))
        except PayloadError as error:
            raise NoAnswerError(f"the answer is not what the protocol says: {error}") from None

    def _failure(self, answer: Answer, report: str) -> TransportError:
        return answer.failure(lambda text: self._connection.redact(text, token_of(report)))


@lru_cache(maxsize=4)
def _poll_body(session_id: str, wait_ms: int) -> str:
    return json.dumps({"worker_session_id": session_id, "wait_ms": wait_ms})


def _session_body(session_id: str) -> str:
    return json.dumps({"worker_session_id": session_id})


def _assigned(answer: Answer) -> object:
    """Return the JSON value of an assignment, at least as far as it takes to answer it."""
    try:
        return answer.value()
    except NoAnswerError:
        found = salvage(answer.body, read_json)
        if found is None:
            raise
        return found


def _cancelled(body: object) -> tuple[str, ...]:
    """Read a heartbeat answer; only its being an object is insisted on (O080)."""
    cancel = _anything(body).get("cancel")
    return tuple(token for token in cancel if isinstance(token, str)) if isinstance(cancel, list) else ()


def _anything(body: object) -> dict[str, Any]:
    if not isinstance(body, dict):
        raise PayloadError("$", "is not an object")
    return body


def _check_version(answer: Answer) -> None:
    """Warn once per process of another protocol version and go on (O013)."""
    version = answer.headers.get(VERSION_HEADER)
    if version is None or version == API_VERSION or _has_warned.is_set():
        return
    _has_warned.set()
    logger.warning("the runtime speaks another protocol version", extra={"found": version[:50], "known": API_VERSION})

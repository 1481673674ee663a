"""Start executions, look at them, wait for them and cancel them.

These are administrative calls: they always use the admin token ``TOKEN``, always over HTTP, whatever binding and
credential the workers use (O031, O035). Nothing is retried here; the id makes it safe to start again.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

from orbit_django import conf
from orbit_django.clock import Clock, SystemClock
from orbit_django.exceptions import ConfigurationError, NoAnswerError, PayloadError
from orbit_django.payloads import compact, plain
from orbit_django.transports.connection import HttpConnection

CONNECT_SECONDS = 5.0
CALL_SECONDS = 15.0
WAIT_MS = 20_000  # the longest single wait; longer ones are repeated
EARLY_SECONDS = 1.0  # pause after a wait that the runtime ended early without a final status
RUNNING = "RUNNING"


class Client:
    """The execution API of one runtime; safe to use from many threads.

    Each call may raise RefusedError with the runtime's words, NoAnswerError when nothing final came back,
    PayloadError for what cannot be sent, and ConfigurationError when the runtime wants a token and none is set.
    """

    def __init__(
        self,
        settings: conf.OrbitSettings | None = None,
        *,
        clock: Clock | None = None,
        pause: Callable[[float], object] | None = None,
    ) -> None:
        found = settings or conf.load()
        self._has_token = found.token is not None
        self._clock = clock or SystemClock()
        self._pause = pause or threading.Event().wait
        self._connection = HttpConnection(
            found.server,
            credential=lambda: found.token,
            ca_cert=found.ca_cert,
            client_cert=found.client_cert,
            client_key=found.client_key,
            proxy=found.proxy,
        )

    def start(self, workflow: str, input: Any = None, *, execution_id: str | None = None) -> str:
        """Start an execution and return its id (O220).

        ``input`` is an object of JSON values, None counts as an empty one. Without ``execution_id`` one is made
        here. A start that brought no answer may be repeated with the same id: it starts nothing twice.
        """
        execution_id = execution_id or uuid.uuid4().hex
        body = {"workflow": workflow, "input": {} if input is None else input, "execution_id": execution_id}
        _quoted(execution_id)
        started = self._object("POST", "/v1/executions", compact(plain(body)))
        return str(started.get("execution_id") or execution_id)

    def get(self, execution_id: str) -> dict[str, Any]:
        """Return the execution as the runtime shows it: ``id``, ``workflow``, ``status``, ``output`` and more."""
        return self._object("GET", f"/v1/executions/{_quoted(execution_id)}")

    def wait(self, execution_id: str, *, timeout_seconds: float | None = None) -> dict[str, Any]:
        """Return the execution once it has ended, or as it is after ``timeout_seconds`` (O220).

        Its ``status`` tells which: ``RUNNING`` is the only one that is not final.
        """
        path = f"/v1/executions/{_quoted(execution_id)}/wait"
        ends_at = self._clock.monotonic() + (float("inf") if timeout_seconds is None else timeout_seconds)
        while True:
            asked_at = self._clock.monotonic()
            wait_ms = max(1, min(WAIT_MS, int(min(ends_at - asked_at, WAIT_MS) * 1000)))
            query = f"?timeout_ms={wait_ms}"
            view = self._object("GET", path + query, total_seconds=wait_ms / 1000 + CALL_SECONDS)
            now = self._clock.monotonic()
            if view.get("status") != RUNNING or now >= ends_at:
                return view
            self._pause(min(max(asked_at + wait_ms / 1000 - now, 0.0), EARLY_SECONDS))

    def cancel(self, execution_id: str, reason: str = "") -> dict[str, Any]:
        """Ask for an end of the execution; the answer may still show it as running (O217)."""
        body = compact(plain({"reason": reason}))
        return self._object("POST", f"/v1/executions/{_quoted(execution_id)}/cancel", body)

    def workers(self) -> list[dict[str, Any]]:
        """Return every worker that has registered, as the runtime shows it (O113)."""
        value = self._value("GET", "/v1/workers")
        found = value.get("workers") if isinstance(value, dict) else value
        if not isinstance(found, list):
            raise NoAnswerError("the answer to GET /v1/workers is no list of workers")
        return found

    def close(self) -> None:
        """Let go of every connection."""
        self._connection.close()

    def _object(
        self, method: str, path: str, body: str | None = None, *, total_seconds: float = CALL_SECONDS
    ) -> dict[str, Any]:
        value = self._value(method, path, body, total_seconds=total_seconds)
        if not isinstance(value, dict):
            raise NoAnswerError(f"the answer to {method} {path} is not an object")
        return value

    def _value(self, method: str, path: str, body: str | None = None, *, total_seconds: float = CALL_SECONDS) -> Any:
        answer = self._connection.call(method, path, body, connect_seconds=CONNECT_SECONDS, total_seconds=total_seconds)
        if answer.is_success:
            return answer.value()
        if answer.status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN) and not self._has_token:
            raise ConfigurationError(
                f"the runtime answered {answer.status} to {method} {path}; it wants the admin token: set TOKEN"
            )
        raise answer.failure(self._connection.redact)


def _quoted(execution_id: str) -> str:
    """Return the id as one segment of a path."""
    if not execution_id or execution_id in (".", ".."):
        raise PayloadError("$.execution_id", f"{execution_id!r} cannot be part of an address")
    try:
        return quote(execution_id, safe="")
    except UnicodeEncodeError:
        raise PayloadError("$.execution_id", "holds half of a surrogate pair") from None

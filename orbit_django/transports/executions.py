"""The calls that start executions and look at them: the administrator's side of a runtime, over HTTP.

Each is made once, with the admin token TOKEN whatever credential and binding the workers use (O031, O035). Nothing
is retried or waited for here.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Any
from urllib.parse import quote

from orbit_django.conf import OrbitSettings
from orbit_django.exceptions import ConfigurationError, NoAnswerError, PayloadError, RefusedError
from orbit_django.payloads import compact, plain
from orbit_django.transports.connection import HttpConnection

CONNECT_SECONDS = 5.0
CALL_SECONDS = 15.0
NOT_ADMITTED = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)


class Executions:
    """The execution API of one runtime; safe to use from many threads.

    Each call may raise RefusedError with the runtime's words, NoAnswerError when nothing final came back,
    PayloadError for what cannot be sent, and ConfigurationError when the runtime wants a token and none is set.
    """

    def __init__(self, settings: OrbitSettings) -> None:
        self._has_token = settings.token is not None
        self._connection = HttpConnection(
            settings.server,
            credential=lambda: settings.token,
            ca_cert=settings.ca_cert,
            client_cert=settings.client_cert,
            client_key=settings.client_key,
            proxy=settings.proxy,
        )

    def start(self, body: str, *, total_seconds: float = CALL_SECONDS) -> dict[str, Any]:
        """Send what ``start_body`` made; return the answer, with ``execution_id`` and ``created`` (O220)."""
        return self._object("POST", "/v1/executions", body, total_seconds=total_seconds)

    def get(self, execution_id: str) -> dict[str, Any]:
        """Return the execution as the runtime shows it."""
        return self._object("GET", _path(execution_id))

    def wait(self, execution_id: str, wait_ms: int) -> dict[str, Any]:
        """Return the execution once it has ended, or as it is after ``wait_ms`` or sooner (O220)."""
        path = f"{_path(execution_id)}/wait?timeout_ms={wait_ms}"
        return self._object("GET", path, total_seconds=wait_ms / 1000 + CALL_SECONDS)

    def cancel(self, execution_id: str, reason: str) -> dict[str, Any]:
        """Ask for an end of the execution (O217)."""
        return self._object("POST", f"{_path(execution_id)}/cancel", compact(plain({"reason": reason})))

    def workers(self) -> list[dict[str, Any]]:
        """Return every worker that has registered (O113)."""
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
        if answer.status in NOT_ADMITTED and not self._has_token:
            raise ConfigurationError(
                f"the runtime answered {answer.status} to {method} {path}; it wants the admin token:"
                " set TOKEN, or ORBIT_TOKEN in the environment"
            )
        raise answer.failure(self._connection.redact)


def advice_for(error: RefusedError) -> str:
    """Return where to look when the admin token was not taken, "" for any other refusal; never the token."""
    if error.status not in NOT_ADMITTED:
        return ""
    return "look at the admin token: TOKEN, or ORBIT_TOKEN in the environment"


def start_body(workflow: str, input: str, execution_id: str) -> str:
    """Return the request body of a start; ``input`` is JSON text. Equal arguments make equal bytes (O220).

    Raises PayloadError for an id that no later call could name, and for what JSON does not have.
    """
    quoted(execution_id)
    _check_text(workflow, "$.workflow")
    name, key = compact(plain(workflow, "$.workflow")), compact(execution_id)
    return f'{{"workflow":{name},"input":{input},"execution_id":{key}}}'


def quoted(execution_id: str) -> str:
    """Return the id as one segment of a path; raise PayloadError when it cannot be one."""
    _check_text(execution_id, "$.execution_id")
    if not execution_id or execution_id in (".", ".."):
        raise PayloadError("$.execution_id", f"{execution_id!r} cannot be part of an address")
    try:
        return quote(execution_id, safe="")
    except UnicodeEncodeError:
        raise PayloadError("$.execution_id", "holds half of a surrogate pair") from None


def _check_text(value: object, path: str) -> None:
    """Raise PayloadError for a number, a UUID and the like: only its caller knows which text is meant."""
    if not isinstance(value, str):
        raise PayloadError(path, f"is of type {type(value).__name__}, expected a text")


def _path(execution_id: str) -> str:
    return f"/v1/executions/{quoted(execution_id)}"

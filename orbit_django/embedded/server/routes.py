"""Which endpoint does what: reads a request's body, calls the runtime, shapes the answer.

The order of the checks is: credential, size, content type, JSON, shape; the rest is the runtime's.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

from orbit_django.embedded import views
from orbit_django.embedded.answers import (
    JSON,
    Answer,
    Host,
    Request,
    error_answer,
    json_answer,
    text_answer,
)
from orbit_django.embedded.server import page
from orbit_django.embedded.server.forms import BodyError, read_body
from orbit_django.embedded.server.polls import finish_look, poll_look
from orbit_django.exceptions import RuntimeRefusalError
from orbit_django.protocol import MAX_WAIT_MS

_DEFAULT_WAIT_MS = 20_000
_DEFAULT_FINISH_MS = 30_000
_MOST_LISTED = 1_000
Endpoint = Callable[[Host, Request, dict[str, Any], str], Answer]


def respond(server: Host, request: Request) -> Answer:
    """Return the answer to an authenticated request."""
    try:
        endpoint, form, execution_id = _route(request)
        body = _body(request, form) if form else {}
        return endpoint(server, request, body, execution_id)
    except BodyError as error:
        return error.answer
    except RuntimeRefusalError as error:
        return error_answer(error)


def _route(request: Request) -> tuple[Endpoint, str | None, str]:
    matches = ((method, target, pattern.fullmatch(request.path)) for method, pattern, target in _ROUTES)
    known = [(method, target, match) for method, target, match in matches if match]
    if not known:
        raise RuntimeRefusalError(404, "NOT_FOUND", f"no endpoint {request.path}")
    for method, (endpoint, form), match in known:
        if method == request.method:
            return endpoint, form, unquote(match[1]) if match.re.groups else ""
    raise RuntimeRefusalError(405, "METHOD_NOT_ALLOWED", f"{request.path} is not for {request.method}")


def _body(request: Request, form: str) -> dict[str, Any]:
    if request.body is None:
        raise RuntimeRefusalError(413, "PAYLOAD_TOO_LARGE", "the request body is larger than the runtime takes")
    media_type = (request.headers.get("content-type") or "").partition(";")[0].strip().lower()
    if media_type != JSON and not re.fullmatch(r"application/.+\+json", media_type):
        raise BodyError(text_answer(415, "Expected request with `Content-Type: application/json`"))
    return read_body(form, request.body)


def _register(server: Host, request: Request, body: dict[str, Any], _: str) -> Answer:
    with server.changing() as runtime:
        return json_answer(runtime.register(body, request.caller))


def _poll(server: Host, request: Request, body: dict[str, Any], _: str) -> Answer:
    session_id = body["worker_session_id"]
    wait_ms = min(body.get("wait_ms", _DEFAULT_WAIT_MS), MAX_WAIT_MS)
    with server.changing() as runtime:
        assignment = runtime.poll(session_id, request.caller)
    if assignment is None and wait_ms:
        assignment = server.wait(poll_look(server, session_id, request.caller), wait_ms, request.is_gone)
    return Answer(204) if assignment is None else json_answer(assignment)


def _heartbeat(server: Host, request: Request, body: dict[str, Any], _: str) -> Answer:
    with server.changing() as runtime:
        return json_answer(runtime.heartbeat(body["worker_session_id"], request.caller))


def _unregister(server: Host, request: Request, body: dict[str, Any], _: str) -> Answer:
    with server.changing() as runtime:
        return json_answer(runtime.unregister(body["worker_session_id"], request.caller))


def _complete(server: Host, request: Request, body: dict[str, Any], _: str) -> Answer:
    with server.changing() as runtime:
        return json_answer(runtime.complete(body["token"], body.get("output"), request.caller))


def _fail(server: Host, request: Request, body: dict[str, Any], _: str) -> Answer:
    error = {
        "code": body["error_code"],
        "message": body.get("error_message", ""),
        "retryable": body.get("retryable", True),
    }
    if "details" in body:
        error["details"] = body["details"]
    with server.changing() as runtime:
        return json_answer(runtime.fail(body["token"], error, request.caller))


def _start(server: Host, request: Request, body: dict[str, Any], _: str) -> Answer:
    with server.changing() as runtime:
        started = runtime.start(
            body["workflow"], body.get("input"), body.get("execution_id"), version=body.get("version")
        )
    return json_answer(started)


def _cancel(server: Host, request: Request, body: dict[str, Any], execution_id: str) -> Answer:
    with server.changing() as runtime:
        return json_answer(views.execution_view(runtime.cancel(execution_id, body.get("reason", ""))))


def _get(server: Host, request: Request, body: dict[str, Any], execution_id: str) -> Answer:
    with server.changing() as runtime:
        return json_answer(views.execution_view(runtime.state.execution(execution_id)))


def _wait(server: Host, request: Request, body: dict[str, Any], execution_id: str) -> Answer:
    timeout_ms = min(_number(request, "timeout_ms", _DEFAULT_FINISH_MS), MAX_WAIT_MS)
    server.wait(finish_look(server, execution_id), timeout_ms, request.is_gone)
    return _get(server, request, body, execution_id)


def _history(server: Host, request: Request, body: dict[str, Any], execution_id: str) -> Answer:
    with server.changing() as runtime:
        return json_answer(views.history_view(runtime, execution_id))


def _executions(server: Host, request: Request, body: dict[str, Any], _: str) -> Answer:
    limit = _number(request, "limit", _MOST_LISTED)
    with server.changing() as runtime:
        shown = views.executions_view(runtime, limit=limit, status=request.query.get("status"))
    return json_answer(shown)


def _workers(server: Host, request: Request, body: dict[str, Any], _: str) -> Answer:
    with server.changing() as runtime:
        return json_answer(views.workers_view(runtime))


def _counters(server: Host, request: Request, body: dict[str, Any], _: str) -> Answer:
    with server.changing() as runtime:
        return json_answer(views.counters_view(runtime))


def _page(server: Host, request: Request, body: dict[str, Any], _: str) -> Answer:
    status = request.query.get("status")
    with server.changing() as runtime:
        executions = views.executions_view(runtime, limit=page.MOST_ROWS, status=status)
        statuses, workers = views.statuses_view(runtime), views.workers_view(runtime)
    return page.answer(page.overview(executions, workers, statuses, status))


def _number(request: Request, name: str, default: int) -> int:
    given = request.query.get(name, str(default))
    if not given.isascii() or not given.isdecimal():
        raise RuntimeRefusalError(400, "INVALID_REQUEST", f"{name} must be a whole number")
    return int(given)


_EXECUTION = r"/v1/executions/([^/]+)"
_ROUTES: list[tuple[str, re.Pattern[str], tuple[Endpoint, str | None]]] = [
    ("POST", re.compile("/v1/workers/poll"), (_poll, "poll")),
    ("POST", re.compile("/v1/tasks/complete"), (_complete, "complete")),
    ("POST", re.compile("/v1/tasks/fail"), (_fail, "fail")),
    ("POST", re.compile("/v1/workers/heartbeat"), (_heartbeat, "heartbeat")),
    ("POST", re.compile("/v1/workers/register"), (_register, "register")),
    ("POST", re.compile("/v1/workers/unregister"), (_unregister, "unregister")),
    ("POST", re.compile("/v1/executions"), (_start, "start")),
    ("GET", re.compile("/v1/executions"), (_executions, None)),
    ("GET", re.compile(_EXECUTION), (_get, None)),
    ("GET", re.compile(_EXECUTION + "/wait"), (_wait, None)),
    ("GET", re.compile(_EXECUTION + "/history"), (_history, None)),
    ("POST", re.compile(_EXECUTION + "/cancel"), (_cancel, "cancel")),
    ("GET", re.compile("/v1/workers"), (_workers, None)),
    ("GET", re.compile("/v1/counters"), (_counters, None)),
    ("GET", re.compile("/"), (_page, None)),
]

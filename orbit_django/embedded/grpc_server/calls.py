"""One call over gRPC: read as the request that it would be over HTTP, and its answer told in a message or a status."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any, NoReturn

import grpc
from google.protobuf.message import DecodeError

from orbit_django.embedded.answers import JSON, Answer, Host, Request
from orbit_django.embedded.grpc_server.messages import CALLS, Call, Status, body_of, content_of, status_of
from orbit_django.transports.values import SpoiltError

Respond = Callable[[Host, Request, frozenset[str] | None], Answer | None]
NO_MESSAGE = b"\xff"
UNREADABLE = Status(grpc.StatusCode.INTERNAL, "failed to decode Protobuf message")
TORN = Status(grpc.StatusCode.UNAVAILABLE, "Socket closed")  # what a client makes of a connection that was cut
NAMES = ("x509_subject_alternative_name", "x509_common_name")


def handlers(host: Host, respond: Respond) -> grpc.GenericRpcHandler[bytes, bytes]:
    """Return what serves the six calls."""
    served = {
        name: grpc.unary_unary_rpc_method_handler(partial(_serve, host, respond, call)) for name, call in CALLS.items()
    }
    return grpc.method_handlers_generic_handler("orbit.worker.v1.WorkerService", served)


def _serve(host: Host, respond: Respond, call: Call, content: bytes, context: Any) -> bytes:
    try:
        body = None if len(content) > host.max_body else json.dumps(body_of(call, content)).encode()
    except (DecodeError, SpoiltError):
        _end(context, UNREADABLE)
    headers = {"content-type": JSON}
    headers |= {key: value for key, value in context.invocation_metadata() if key == "authorization"}
    request = Request("POST", call.path, {}, headers, body, is_gone=lambda: not context.is_active())
    answer = respond(host, request, _certificate_names(context))
    return reply(call, answer, context)


def reply(call: Call, answer: Answer | None, context: Any) -> bytes:
    """Return the message of an answer, or end the call with its status."""
    if answer is None or answer.is_cut:
        _end(context, TORN)
    if answer.status == 204:
        return b""
    if answer.status != 200:
        _end(context, status_of(answer))
    try:
        fields = json.loads(answer.body)
        return content_of(call, fields if isinstance(fields, dict) else {})
    except (ValueError, TypeError):
        return NO_MESSAGE


def _end(context: Any, status: Status) -> NoReturn:
    context.set_trailing_metadata(status.metadata)
    context.abort(status.code, status.text)
    raise AssertionError  # abort raises


def _certificate_names(context: Any) -> frozenset[str] | None:
    shown = context.auth_context()
    names = frozenset(name.decode() for kind in NAMES for name in shown.get(kind, ()))
    return names or None

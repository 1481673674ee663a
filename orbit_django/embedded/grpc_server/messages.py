"""Messages of the gRPC side and the JSON of the HTTP side, translated both ways (O161 to O169)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import grpc
from google.protobuf.message import Message
from google.protobuf.struct_pb2 import Value

from orbit_django.embedded.answers import Answer
from orbit_django.transports.proto import worker_pb2 as pb
from orbit_django.transports.values import MOST_WHOLE, read, write

ENDLESS = 1_000_000  # nesting is the reader's trouble
CODE_KEY = "orbit-error-code"
Code = grpc.StatusCode

BY_ERROR = {
    400: Code.INVALID_ARGUMENT,
    401: Code.UNAUTHENTICATED,
    403: Code.PERMISSION_DENIED,
    404: Code.NOT_FOUND,
    409: Code.FAILED_PRECONDITION,
}  # of an answer with an error object; the rest is INTERNAL (O170)
BY_STATUS = {
    400: Code.INTERNAL,
    401: Code.UNAUTHENTICATED,
    403: Code.PERMISSION_DENIED,
    404: Code.UNIMPLEMENTED,
    429: Code.UNAVAILABLE,
    502: Code.UNAVAILABLE,
    503: Code.UNAVAILABLE,
    504: Code.UNAVAILABLE,
}  # how a client reads the status of somebody who speaks no gRPC; the rest is UNKNOWN
ONLY_PREFIX = re.compile(r"(token|error_code) must not be empty")  # told without the metadata (O169)


class Call(NamedTuple):
    """One call of the service."""

    path: str
    request: type[Message]
    answer: type[Message]


CALLS = {
    "RegisterWorker": Call("/v1/workers/register", pb.RegisterWorkerRequest, pb.RegisterWorkerResponse),
    "Heartbeat": Call("/v1/workers/heartbeat", pb.HeartbeatRequest, pb.HeartbeatResponse),
    "PollTask": Call("/v1/workers/poll", pb.PollTaskRequest, pb.ExecuteTaskRequest),
    "CompleteTask": Call("/v1/tasks/complete", pb.CompleteTaskRequest, pb.TaskResultAck),
    "FailTask": Call("/v1/tasks/fail", pb.FailTaskRequest, pb.TaskResultAck),
    "UnregisterWorker": Call("/v1/workers/unregister", pb.UnregisterWorkerRequest, pb.UnregisterWorkerResponse),
}


class Status(NamedTuple):
    """How a call ends that brings no message."""

    code: grpc.StatusCode
    text: str
    metadata: tuple[tuple[str, str], ...] = ()


def body_of(call: Call, content: bytes) -> dict[str, Any]:
    """Return a request as the JSON of the HTTP side; raise DecodeError or SpoiltError for what is none.

    A missing text is an empty one, ``retryable`` is always said, and a ``wait_ms`` of 0 is not (O165, O166).
    """
    message = call.request.FromString(content)
    body = {field.name: _told(message, field) for field in message.DESCRIPTOR.fields}
    return {name: value for name, value in body.items() if value is not None and (name, value) != ("wait_ms", 0)}


def content_of(call: Call, fields: Mapping[str, Any]) -> bytes:
    """Return the message with these members of a JSON answer; members that it does not have are left out."""
    message = call.answer()
    for field in message.DESCRIPTOR.fields:
        if field.name in fields:
            _set(message, field, fields[field.name])
    return message.SerializeToString()


def fields_of(call: Call, content: bytes) -> dict[str, Any]:
    """Return an answer as the HTTP side would tell it."""
    message = call.answer.FromString(content)
    fields = {field.name: _told(message, field) for field in message.DESCRIPTOR.fields}
    return {name: value for name, value in fields.items() if value is not None and (name, value) != ("reason", "")}


def status_of(answer: Answer) -> Status:
    """Return the status that tells what an answer over HTTP would tell by its own."""
    error = _error_of(answer)
    if error is None:
        text = f"Received http2 header with status: {answer.status}"
        return Status(BY_STATUS.get(answer.status, Code.UNKNOWN), text)
    code, message = error["code"], error["message"]
    if (answer.status, code) == (413, "PAYLOAD_TOO_LARGE"):
        return Status(Code.OUT_OF_RANGE, "Error, decoded message length too large: it is above the limit")
    is_bare = answer.status == 401 or ONLY_PREFIX.match(message) is not None
    return Status(
        BY_ERROR.get(answer.status, Code.INTERNAL), f"{code}: {message}", () if is_bare else ((CODE_KEY, code),)
    )


def _error_of(answer: Answer) -> dict[str, str] | None:
    try:
        found = json.loads(answer.body)["error"]
        return {"code": str(found["code"]), "message": str(found["message"])}
    except (ValueError, TypeError, KeyError):
        return None


def _told(message: Any, field: Any) -> Any:
    """Return a field as JSON, None for one that was left out."""
    value = getattr(message, field.name)
    if field.message_type is not None and field.message_type.full_name == Value.DESCRIPTOR.full_name:
        return read(value) if message.HasField(field.name) else None
    if field.is_repeated:
        return [_members(item) if field.message_type else item for item in value]
    return value if not field.has_presence or message.HasField(field.name) else None


def _members(message: Any) -> dict[str, Any]:
    return {field.name: getattr(message, field.name) for field in message.DESCRIPTOR.fields}


def _set(message: Any, field: Any, value: Any) -> None:
    if field.message_type is not None:
        write(getattr(message, field.name), _doubles(value), room=ENDLESS)
    elif field.is_repeated:
        getattr(message, field.name).extend(value)
    elif value is not None:
        kind = type(getattr(message, field.name))
        setattr(message, field.name, kind(value))


def _doubles(value: Any) -> Any:
    """Return the value with what no double holds as the nearest one: the loss that this binding has (O167)."""
    if isinstance(value, dict):
        return {name: _doubles(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_doubles(item) for item in value]
    is_large = isinstance(value, int) and abs(value) > MOST_WHOLE
    return float(value) if is_large else value

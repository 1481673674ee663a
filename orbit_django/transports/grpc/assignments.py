"""An assignment out of the bytes of a poll's answer, at least as far as it takes to answer it (O070 to O078, O164)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from google.protobuf.message import DecodeError

from orbit_django.exceptions import NoAnswerError, PayloadError
from orbit_django.protocol import Assignment, Unreadable
from orbit_django.transports.proto.worker_pb2 import ExecuteTaskRequest
from orbit_django.transports.values import SpoiltError, read

TEXTS = (
    "token", "execution_id", "workflow", "workflow_version", "step_id", "task_name", "contract_version",
    "idempotency_key",
)  # fmt: skip
INPUT = 8  # the number of its field
VARINT, FIXED64, DELIMITED, FIXED32 = 0, 1, 2, 5  # how fields lie on the wire
SIZES = {FIXED64: 8, FIXED32: 4}


def assignment_of(content: bytes) -> Assignment | None:
    """Return the task in the answer, None when there is none; raise NoAnswerError for what cannot be read.

    An input that nobody will ever read is Unreadable: delivered again it would be the same.
    """
    message, why = _parsed(content)
    if not message.token:
        return None
    fields: dict[str, Any] = {name: getattr(message, name) for name in TEXTS}
    fields |= {"attempt": message.attempt, "redelivery": message.redelivery}
    fields |= {name: getattr(message, name) for name in ("deadline_ms", "timeout_ms") if message.HasField(name)}
    try:
        fields["input"] = Unreadable(why) if why else read(message.input)
    except SpoiltError as error:
        fields["input"] = Unreadable(str(error))
    try:
        return Assignment.from_wire(fields)
    except PayloadError as error:
        raise NoAnswerError(f"the answer is not what the protocol says: {error}") from None


def _parsed(content: bytes) -> tuple[ExecuteTaskRequest, str]:
    """Return the message, and why it had to be read without its input."""
    try:
        return ExecuteTaskRequest.FromString(content), ""
    except DecodeError:
        pass
    try:
        rest = b"".join(field for number, field in _fields(content) if number != INPUT)
        return ExecuteTaskRequest.FromString(rest), "it is nested too deeply, or is no UTF-8"
    except (DecodeError, IndexError, KeyError):
        raise NoAnswerError("the answer is no message of the protocol") from None


def _fields(content: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield number and bytes of each field; raise IndexError or KeyError for what is not made of whole fields."""
    at = 0
    while at < len(content):
        tag, end = _varint(content, at)
        if tag & 7 == VARINT:
            _, end = _varint(content, end)
        elif tag & 7 == DELIMITED:
            size, end = _varint(content, end)
            end += size
        else:
            end += SIZES[tag & 7]
        if end > len(content):
            raise IndexError
        yield tag >> 3, content[at:end]
        at = end


def _varint(content: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = content[at]
        number |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return number, at

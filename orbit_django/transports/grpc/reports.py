"""Reports as messages: the JSON text that the outbox keeps, turned into the bytes that are sent.

Equal texts make equal bytes. What cannot be carried is found here, before the commit as well as before a try.
"""

from __future__ import annotations

import json
from typing import Any

from orbit_django.exceptions import NotCarriedError, PayloadError, PayloadTooLargeError
from orbit_django.payloads import compact, cut
from orbit_django.protocol import Kind
from orbit_django.transports.proto.worker_pb2 import CompleteTaskRequest, FailTaskRequest
from orbit_django.transports.values import MOST_WHOLE, write


def message_of(kind: Kind, body: str, limit: int) -> bytes:
    """Return the message that reports this JSON text (O090, O100).

    Raises NotCarriedError with the path of what gRPC cannot carry, PayloadTooLargeError for a success of more than
    ``limit`` bytes, and PayloadError or ValueError for a text that is no report.
    """
    try:
        fields = json.loads(body)
        return _completion(fields, limit) if kind is Kind.COMPLETE else _failure(fields, limit)
    except (KeyError, TypeError, AttributeError, RecursionError):
        raise PayloadError("$", "is no report: a member is missing, or has another type") from None


def _completion(fields: dict[str, Any], limit: int) -> bytes:
    message = CompleteTaskRequest(token=fields["token"])
    write(message.output, fields["output"])
    content = message.SerializeToString(deterministic=True)
    if len(content) > limit:
        raise PayloadTooLargeError(len(content), limit)
    return content


def _failure(fields: dict[str, Any], limit: int) -> bytes:
    """Return the message of a failure, which has to get through: details that do not fit are told as text."""
    message = FailTaskRequest(
        token=fields["token"],
        error_code=fields["error_code"],
        error_message=fields.get("error_message", ""),
        retryable=fields.get("retryable", True),
    )
    if (details := fields.get("details")) is None:
        return message.SerializeToString(deterministic=True)
    try:
        write(message.details, _exact(details))
        content = message.SerializeToString(deterministic=True)
        if len(content) <= limit:
            return content
    except NotCarriedError:
        pass  # too deep
    message.ClearField("details")
    write(message.details, {"cut": True, "text": cut(compact(details), limit // 4)})
    return message.SerializeToString(deterministic=True)


def _exact(value: Any) -> Any:
    """Return details with the whole numbers beyond 2^53 as texts: people read them, no contract is asked."""
    if isinstance(value, dict):
        return {name: _exact(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_exact(item) for item in value]
    is_large = isinstance(value, int) and abs(value) > MOST_WHOLE
    return str(value) if is_large else value

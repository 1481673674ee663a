"""What a gRPC status amounts to, in the words of the contract and with the numbers of HTTP (O169, O170)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import grpc

from orbit_django.conf.addresses import is_loopback, split_target
from orbit_django.exceptions import NoAnswerError, RefusedError, TransportError
from orbit_django.transports.answers import CODE_LIMIT, TEXT_LIMIT, shown

CODE_KEY = "orbit-error-code"
Code = grpc.StatusCode
NUMBERS = {
    Code.INVALID_ARGUMENT: 400,
    Code.UNAUTHENTICATED: 401,
    Code.PERMISSION_DENIED: 403,
    Code.NOT_FOUND: 404,
    Code.FAILED_PRECONDITION: 409,
    # Nobody's words of the protocol, and no trouble that passes:
    Code.UNIMPLEMENTED: 404,
    Code.ALREADY_EXISTS: 409,
    Code.OUT_OF_RANGE: 400,
}
TOO_LARGE = re.compile(r"message length too large|message larger than max", re.IGNORECASE)
UNSENT = ("failed to connect", "errors resolving", "dns resolution failed", "name resolution", "address lookup")
PREFIX = re.compile(r"([A-Z][A-Z0-9_]{1,99}): ?(.*)", re.DOTALL)
REFUSED, HANDSHAKE = "Connection refused", "handshake"
NOBODY = "no ORBIT runtime answers there; look at GRPC_TARGET"


def code_of(error: grpc.RpcError) -> tuple[str, str]:
    """Return the runtime's error code, empty when it gave none, and its message without it (O169)."""
    text = error.details() or ""
    found = PREFIX.fullmatch(text)
    metadata: Any = error.trailing_metadata() or ()
    for key, value in metadata:
        if key == CODE_KEY and isinstance(value, str) and value:
            return value, found[2] if found and found[1] == value else text
    return (found[1], found[2]) if found else ("", text)


def failure_of(error: grpc.RpcError, method: str, target: str, hide: Callable[[str], str]) -> TransportError:
    """Return the error that a failed call amounts to; ``hide`` takes the secrets out of a text."""
    status = error.code()
    code, message = code_of(error)
    code, message = shown(hide(code), CODE_LIMIT), shown(hide(message), TEXT_LIMIT) or "no text"
    is_too_large = TOO_LARGE.search(message) is not None
    if (status is Code.RESOURCE_EXHAUSTED or is_too_large) and not message.startswith("CLIENT:"):
        number, is_from_runtime = (413, True) if is_too_large else (429, bool(code))
    elif status in NUMBERS:
        number, is_from_runtime = NUMBERS[status], bool(code) and status is not Code.UNIMPLEMENTED
    else:
        return _no_answer(status, f"{code}: {message}" if code else message, method, target)
    if status is Code.UNIMPLEMENTED:
        message = NOBODY
    said = f"{status.name} without an ORBIT error code"
    return RefusedError(number, code, message, is_from_runtime=is_from_runtime, what=said)


def _no_answer(status: grpc.StatusCode, text: str, method: str, target: str) -> NoAnswerError:
    is_unsent = status is Code.UNAVAILABLE and text.lower().startswith(UNSENT)
    host, port = split_target(target)
    if is_unsent and text.endswith(REFUSED) and is_loopback(host):
        command = f"manage.py orbit_runtime --grpc-port {port}"
        hint = f"nothing listens at {target} (GRPC_TARGET); for development start: {command}"
        return NoAnswerError(hint, is_maybe_processed=False)
    if is_unsent:
        where = "SERVER and CA_CERT" if HANDSHAKE in text else "GRPC_TARGET"
        text = f"{method}: no connection to {target}: {text}; if that lasts, look at {where}"
        return NoAnswerError(text, is_maybe_processed=False)
    return NoAnswerError(f"{method}: no answer from {target}: {status.name} {text}")

"""Requests read from a connection, within the outer limits of the platform."""

from __future__ import annotations

import time
from email.message import Message
from typing import Protocol

from orbit_django.embedded.listener import ClosedError
from orbit_django.embedded.weave.problems import ProblemError

MOST_BODY_BYTES = 6_356_998
MOST_HEADER_BYTES = 16_384
TOTAL_SECONDS = 30.0
_CHUNK = 65_536
_MOST_DRAINED = 64 * 1024 * 1024


class Stream(Protocol):
    """What a body is read from; a TimeoutError says that nothing came for too long."""

    def read1(self, size: int = -1, /) -> bytes:
        """Return what is there, up to ``size``."""
        ...


def body_length(headers: Message) -> int:
    """Return the length of the body; refuse one that is not told, or told twice."""
    lengths = headers.get_all("content-length") or ["0"]
    if len(lengths) > 1 or not (lengths[0].isascii() and lengths[0].isdecimal()) or "transfer-encoding" in headers:
        raise ProblemError(400, "WV-REQUEST-HEADERS")
    return int(lengths[0])


def check_headers(headers: Message) -> None:
    """Refuse headers that are too large, and encoded bodies."""
    if sum(len(name) + len(value) for name, value in headers.items()) > MOST_HEADER_BYTES:
        raise ProblemError(431, "WV-REQUEST-HEADERS")
    if "content-encoding" in headers:
        raise ProblemError(415, "WV-REQUEST-ENCODING")


def read_body(stream: Stream, length: int) -> bytes:
    """Return the body; one that is too large is read and thrown away, so that the refusal arrives."""
    body, left, ends_at = bytearray(), min(length, _MOST_DRAINED), time.monotonic() + TOTAL_SECONDS
    while left:
        data = _some(stream, min(left, _CHUNK), ends_at)
        left -= len(data)
        if length <= MOST_BODY_BYTES:
            body += data
    if length > MOST_BODY_BYTES:
        raise ProblemError(413, "WV-REQUEST-LIMIT")
    return bytes(body)


def _some(stream: Stream, size: int, ends_at: float) -> bytes:
    try:
        data = stream.read1(size)
    except TimeoutError:
        raise ProblemError(408, "WV-REQUEST-TIMEOUT") from None
    if not data:
        raise ClosedError("the client hung up in the middle of its request")
    if time.monotonic() > ends_at:
        raise ProblemError(408, "WV-REQUEST-TIMEOUT")
    return data

"""What came back over HTTP, read strictly: a JSON value, or the error that the answer amounts to.

Nothing here touches the network. Texts taken from an answer are shown to people, so secrets are hidden and the
length is bounded before they go into an error.
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, NoReturn

from orbit_django.exceptions import NoAnswerError, RefusedError, TransportError

VERSION_HEADER = "x-orbit-api-version"
PLAIN_REFUSALS = (400, 413, 415, 422)  # the runtime sends these as plain text, too (O014, O017)
TEXT_LIMIT = 500  # characters of an answer's text that an error keeps
CODE_LIMIT = 100
PAGE = "with an HTML page"
PAGE_MARKS = (b"<!doctype html", b"<html")
LONGEST_MARK = 14
NO_RUNTIME = "no ORBIT runtime is there; look at SERVER"
MAX_BODY_BYTES = 64 * 1024 * 1024
READ_LIMIT = 65_536  # bytes of an answer that are looked at for its text

Hide = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Answer:
    """One HTTP answer; header names are looked up without regard to case."""

    status: int
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)

    @property
    def is_success(self) -> bool:
        """Whether the status is one of 200 to 299."""
        return HTTPStatus.OK <= self.status < HTTPStatus.MULTIPLE_CHOICES

    def value(self) -> Any:
        """Return the body's JSON value, numbers exact; raise NoAnswerError when it is not JSON in UTF-8."""
        if self._is_page():
            raise NoAnswerError(f"{self.status} {PAGE}: {NO_RUNTIME}")
        try:
            return read_json(self.body)
        except (ValueError, RecursionError) as error:
            raise NoAnswerError(f"unreadable answer with status {self.status}: {_why(error)}") from None

    def error(self) -> tuple[str, str] | None:
        """Return code and message of the runtime's error object; None when the body is not one (O016)."""
        try:
            body = read_json(self.body)
        except (ValueError, RecursionError):
            return None
        found = body.get("error") if isinstance(body, dict) else None
        if not isinstance(found, dict):
            return None
        code, message = found.get("code"), found.get("message")
        if not isinstance(code, str) or not code:
            return None
        return code, message if isinstance(message, str) else ""

    def failure(self, hide: Hide) -> TransportError:
        """Return the error that this answer amounts to; ``hide`` takes the secrets out of a text (O018, O019)."""
        error = self.error()
        what = PAGE if error is None and self._is_page() else "without an ORBIT error code"
        code, message = error or ("", NO_RUNTIME if what == PAGE else self._text())
        code, message = shown(hide(code), CODE_LIMIT), shown(hide(message), TEXT_LIMIT)
        if self.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            text = f"{self.status} {code or what}: {message}"
            return NoAnswerError(text)
        is_from_runtime = error is not None or self._is_plain_refusal()
        return RefusedError(self.status, code, message, is_from_runtime=is_from_runtime, what=what)

    def _is_plain_refusal(self) -> bool:
        return self.status in PLAIN_REFUSALS and VERSION_HEADER in self.headers

    def _is_page(self) -> bool:
        if "html" in self.headers.get("content-type", "").lower():
            return True
        return self.body[:READ_LIMIT].lstrip()[:LONGEST_MARK].lower().startswith(PAGE_MARKS)

    def _text(self) -> str:
        return self.body[:READ_LIMIT].decode("utf-8", "replace") or "no text"


def whole(pieces: Iterable[bytes]) -> bytes:
    """Put a body together; raise NoAnswerError when it is larger than anything that a runtime sends."""
    body = bytearray()
    for piece in pieces:
        body += piece
        if len(body) > MAX_BODY_BYTES:
            raise NoAnswerError(f"the answer is larger than {MAX_BODY_BYTES} bytes")
    return bytes(body)


def read_json(body: bytes) -> Any:
    """Decode strictly; a byte order mark is let pass, since it changes no value."""
    return _decoder.decode(body.removeprefix(codecs.BOM_UTF8).decode())


def _refuse(literal: str) -> NoReturn:
    raise ValueError(f"{literal} is not JSON")


_decoder = json.JSONDecoder(parse_constant=_refuse)  # ``json.loads`` would make one for each text


def shown(text: str, limit: int) -> str:
    """Return the text on one line and cut, so that an answer can neither flood a log nor forge lines in it."""
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def _why(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} at character {error.pos}"
    if isinstance(error, UnicodeDecodeError):
        return f"byte {error.start} is not UTF-8"
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)

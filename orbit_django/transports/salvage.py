"""An assignment out of an answer that no JSON reader takes as a whole, because one of its fields cannot be read.

Delivered again it would be the same, so it has to be answered, which takes its token alone. Whatever could also be an
answer that was spoilt on its way is left alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from json import JSONDecodeError
from json.decoder import scanstring  # type: ignore[attr-defined]  # not in its type stubs
from typing import Any

from orbit_django.protocol import Unreadable

MARKS = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|["\[\]{},]', re.DOTALL)  # a whole text, or what gives JSON its shape
OPENING = re.compile(r"[ \t\r\n]*\{")
BLANKS = re.compile(r"[ \t\r\n]*")
COLON = re.compile(r"[ \t\r\n]*:")


class _SpoiltError(ValueError):
    """The text is no JSON object, or not the whole of one."""


def salvage(body: bytes, read: Callable[[bytes], Any]) -> dict[str, Any] | None:
    """Return the members of the object, those that no reader will ever take as Unreadable.

    None when that is not what is wrong. ``read`` decodes JSON and raises ValueError or RecursionError.
    """
    try:
        texts = _members(body.decode("utf-8-sig", "surrogateescape"))
        found = {name: _value(text.encode("utf-8", "surrogateescape"), read) for name, text in texts}
    except (ValueError, RecursionError):
        return None
    return found if any(isinstance(value, Unreadable) for value in found.values()) else None


def _value(text: bytes, read: Callable[[bytes], Any]) -> Any:
    """Return a value, or why no reader will ever take it; raise ValueError when it may be spoilt."""
    try:
        return read(text)
    except RecursionError:
        return Unreadable("it is nested too deeply")
    except UnicodeDecodeError as error:
        return Unreadable(f"its byte {error.start} is not UTF-8")
    except JSONDecodeError:
        raise
    except ValueError as error:  # a constant that JSON does not have, or a number without end
        return Unreadable("it has a number with too many digits" if "digits" in str(error) else str(error))


def _members(text: str) -> Iterator[tuple[str, str]]:
    """Yield name and text of each member of an object, without looking into the values."""
    at = _past(OPENING, text, 0)
    while True:
        at = _past(BLANKS, text, at)
        if text[at : at + 1] != '"':
            raise _SpoiltError
        name, at = scanstring(text, at + 1)
        start = _past(COLON, text, at)
        end = _end_of_value(text, start)
        yield name, text[start:end].strip()
        if text[end] == "}":
            break
        at = end + 1
    if _past(BLANKS, text, end + 1) != len(text):
        raise _SpoiltError


def _past(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    if found is None:
        raise _SpoiltError
    return found.end()


def _end_of_value(text: str, at: int) -> int:
    """Return where the comma or the bracket stands that ends the value which begins here."""
    depth = 0
    for found in MARKS.finditer(text, at):
        mark = found[0]
        if mark == '"':  # a text without an end
            break
        if not depth and mark in (",", "}"):
            return found.start()
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(mark, 0)
    raise _SpoiltError

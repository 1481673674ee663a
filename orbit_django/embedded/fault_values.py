"""How the values of faults are read from a command line; each reader raises ValueError for what makes no sense."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, NamedTuple
from urllib.parse import urlsplit

Read = Callable[[str], Any]


class Status(NamedTuple):
    """An HTTP status with the code of its error object."""

    number: int
    code: str = ""  # empty: the one that belongs to the status


def nothing(text: str) -> Any:
    """Refuse any value."""
    raise ValueError


def number(text: str) -> int:
    """Read an HTTP status."""
    return HTTPStatus(int(text)).value


def status(text: str) -> Status:
    """Read ``STATUS`` or ``STATUS/CODE``."""
    before, slash, code = text.partition("/")
    if slash and not code:
        raise ValueError
    return Status(number(before), code)


def milliseconds(text: str) -> int:
    """Read a number of ``ms`` or ``s``."""
    match = re.fullmatch(r"(\d+)(ms|s)", text)
    if match is None:
        raise ValueError
    return int(match[1]) * (1 if match[2] == "ms" else 1000)


def url(text: str) -> str:
    """Read an address."""
    if urlsplit(text).scheme not in {"http", "https"}:
        raise ValueError
    return text


def word(text: str) -> str:
    """Read a text without spaces."""
    if not re.fullmatch(r"[!-~]+", text):
        raise ValueError
    return text


def anything(text: str) -> Any:
    """Read JSON."""
    return json.loads(text)


def members(text: str) -> dict[str, Any]:
    """Read a JSON object."""
    value = json.loads(text)
    if not isinstance(value, dict):
        raise ValueError
    return value

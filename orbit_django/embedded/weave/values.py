"""JSON values: what is taken as JSON at all, how large a value may be, and its one canonical form (RFC 8785)."""

from __future__ import annotations

import hashlib
import json
import math
import re
from typing import Any, NoReturn

from orbit_django.embedded.weave.problems import ProblemError, invalid

MOST_BYTES = 1_048_576  # of a value as compact UTF-8 JSON
MOST_DEPTH = 32  # containers within each other
MOST_NODES = 100_000
MOST_NESTING, MOST_TOKENS = 40, 201_024  # of a whole request body
_LARGEST = 2**53 - 1
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[{]|[\]}]|[^\s,:\[\]{}"]+')


def check_tokens(raw: bytes) -> None:
    """Refuse a body that is nested too deep or made of too many pieces, before it is decoded."""
    nesting = count = 0
    for match in _TOKEN.finditer(raw):
        if match[0] in {b"]", b"}"}:
            nesting -= 1
            continue
        count += 1
        nesting += match[0] in {b"[", b"{"}
        if nesting > MOST_NESTING or count > MOST_TOKENS:
            raise ProblemError(413, "WV-REQUEST-LIMIT")


def parse(raw: bytes) -> Any:
    """Return the decoded body; refuse what is no JSON, or outside the JSON domain of the wire."""
    try:
        value = json.loads(raw.decode("utf-8"), parse_constant=_refuse_constant)
        _check_domain(value)
    except (ValueError, RecursionError):
        raise invalid() from None
    return value


def check_budget(value: Any) -> int:
    """Return the size of a value in bytes; refuse one that is too large, too deep or has too many nodes."""
    size = len(compact(value))
    if size > MOST_BYTES or _is_beyond(value):
        raise invalid()
    return size


def compact(value: Any) -> bytes:
    """Return a value as compact UTF-8 JSON."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def digest(value: Any) -> str:
    """Return the SHA-256 of the canonical form, in hexadecimal."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()


def canonical(value: Any) -> str:
    """Return the canonical form: sorted keys, and one spelling for each number."""
    if isinstance(value, dict):
        names = sorted(value, key=lambda name: name.encode("utf-16-be"))
        return "{" + ",".join(f"{_text(name)}:{canonical(value[name])}" for name in names) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(canonical, value)) + "]"
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, float):
        return _number(value)
    return json.dumps(value)


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)


def _number(value: float) -> str:
    """Return a number as ECMAScript writes it."""
    if value.is_integer() and abs(value) < 1e21:
        return str(int(value))
    mantissa, _, exponent = repr(value).partition("e")
    if not exponent:
        return mantissa
    power = int(exponent)
    if -6 <= power < 0:
        return f"{value:.{len(mantissa.replace('.', '').lstrip('-')) - 1 - power}f}"
    return f"{mantissa}e{power:+d}"


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _check_domain(value: Any) -> None:
    """Raise ValueError for a number or a text that the wire does not have."""
    if isinstance(value, dict):
        for name, item in value.items():
            name.encode()
            _check_domain(item)
    elif isinstance(value, list):
        for item in value:
            _check_domain(item)
    elif isinstance(value, str):
        value.encode()  # fails for half of a surrogate pair
    elif isinstance(value, float) and not math.isfinite(value):
        raise ValueError("a number is too large")
    elif isinstance(value, int) and abs(value) > _LARGEST:
        raise ValueError("an integer is too large")


def _is_beyond(value: Any) -> bool:
    nodes, level, depth = 0, [value], 0
    while level:
        nodes += len(level)
        containers = [item for item in level if isinstance(item, dict | list)]
        depth += bool(containers)
        if depth > MOST_DEPTH or nodes > MOST_NODES:
            return True
        level = [child for item in containers for child in (item.values() if isinstance(item, dict) else item)]
    return False

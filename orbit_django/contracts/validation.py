"""Check JSON values against the shapes that contracts declare."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from orbit_django.contracts.declarations import ANY, FLOAT, INT, LIST, STRING, Shape


def find_mismatch(value: Any, shape: Shape) -> str | None:
    """Return where and how ``value`` differs from ``shape``, or None when it fits.

    The text reads like ``$.message: missing required field `message` of type String``. Members that the shape does
    not name are let through. A whole number is one whether it was written ``3`` or ``3.0``.
    """
    return next((f"{path}: {text}" for path, text in mismatches(value, shape)), None)


def mismatches(value: Any, shape: Shape) -> Iterator[tuple[str, str]]:
    """Yield the path of each field in which ``value`` differs from ``shape``, and what is wrong with it."""
    if not isinstance(value, dict):
        yield "$", f"expected an object, found {type_name(value)}"
        return
    for name, wanted in shape.items():
        if name not in value:
            yield f"$.{name}", f"missing required field `{name}` of type {wanted}"
        elif not _fits(value[name], wanted):
            yield f"$.{name}", f"expected {wanted}, found {type_name(value[name])}"


def type_name(value: Any) -> str:
    """Return what to call a value's type in a message."""
    if value is None:
        return "null"
    for known, name in ((bool, "Boolean"), (str, STRING), (int, INT), (float, FLOAT), (list, "a list")):
        if isinstance(value, known):
            return name
    return "an object"


def _fits(value: Any, wanted: str) -> bool:
    if wanted == ANY:
        return True
    if wanted in {STRING, LIST}:
        return isinstance(value, str if wanted == STRING else list)
    if isinstance(value, bool):
        return False
    if wanted == FLOAT:
        return isinstance(value, int) or (isinstance(value, float) and math.isfinite(value))
    return isinstance(value, int) or (isinstance(value, float) and value.is_integer())

"""Check JSON values against the shapes that contracts declare."""

from __future__ import annotations

import math
from typing import Any

from orbit_django.contracts.declarations import ANY, FLOAT, INT, LIST, STRING, Shape


def find_mismatch(value: Any, shape: Shape) -> str | None:
    """Return where and how ``value`` differs from ``shape``, or None when it fits.

    The text reads like ``$.message: missing required field `message` of type String``. Members that the shape does
    not name are let through. A whole number is one whether it was written ``3`` or ``3.0``.
    """
    if not isinstance(value, dict):
        return f"$: expected an object, found {type_name(value)}"
    for name, wanted in shape.items():
        if name not in value:
            return f"$.{name}: missing required field `{name}` of type {wanted}"
        if not _fits(value[name], wanted):
            return f"$.{name}: expected {wanted}, found {type_name(value[name])}"
    return None


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

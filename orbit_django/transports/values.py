"""JSON values as messages of the gRPC binding carry them, in both directions (O162, O167).

Numbers travel as doubles: a whole one beyond 2^53 either way would come out as another one, so none is written. Readers
stop at a hundred messages within each other; an object takes three of them, a list two.
"""

from __future__ import annotations

import math
from typing import Any

from google.protobuf.struct_pb2 import Value

from orbit_django.exceptions import NotCarriedError

MOST_WHOLE = 2**53
ROOM = 95  # messages within each other, of the hundred that readers take
OBJECT_ROOM, LIST_ROOM = 3, 2


class SpoiltError(ValueError):
    """A value holds what JSON does not have."""


def write(target: Value, value: Any, path: str = "$", room: int = ROOM) -> None:
    """Put plain JSON types into an empty message; raise NotCarriedError naming the path of what does not fit."""
    if value is None:
        target.null_value = 0  # type: ignore[assignment]  # the only value of its enumeration
    elif isinstance(value, bool):
        target.bool_value = value
    elif isinstance(value, int | float):
        target.number_value = _double(value, path)
    elif isinstance(value, str):
        target.string_value = value
    else:
        _write_members(target, value, path, room)


def read(value: Value) -> Any:
    """Return plain JSON types, whole numbers within 2^53 as integers; raise SpoiltError for what JSON does not have."""
    kind = value.WhichOneof("kind")
    if kind == "number_value":
        return number(value.number_value)
    if kind == "struct_value":
        return {name: read(member) for name, member in value.struct_value.fields.items()}
    if kind == "list_value":
        return [read(item) for item in value.list_value.values]
    return None if kind in (None, "null_value") else getattr(value, kind)


def number(double: float) -> int | float:
    """Return an integer for a whole number within 2^53 either way, else the number as it is."""
    if not math.isfinite(double):
        raise SpoiltError(f"it holds {double}, which JSON does not have")
    return int(double) if double.is_integer() and abs(double) <= MOST_WHOLE else double


def _double(value: int | float, path: str) -> float:
    if isinstance(value, int) and abs(value) > MOST_WHOLE:
        raise NotCarriedError(path, "is a whole number beyond 2^53, which gRPC cannot carry exactly; send it as a text")
    return float(value)


def _write_members(target: Value, value: Any, path: str, room: int) -> None:
    room -= OBJECT_ROOM if isinstance(value, dict) else LIST_ROOM
    if room < 0:
        raise NotCarriedError(path, "is nested deeper than gRPC can carry, which is 31 objects or 47 lists")
    if isinstance(value, dict):
        target.struct_value.SetInParent()
        for name, member in value.items():
            write(target.struct_value.fields[name], member, f"{path}.{name}", room)
    else:
        target.list_value.SetInParent()
        for index, item in enumerate(value):
            write(target.list_value.values.add(), item, f"{path}[{index}]", room)

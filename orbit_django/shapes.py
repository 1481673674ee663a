"""Typed inputs and outputs: JSON values read as dataclasses and the types that their fields name.

Validation only: a value either has the shape or every field that has not is named. No coercion that could hide
a mistake: a text is never taken for a number.
"""

from __future__ import annotations

import dataclasses
import enum
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal, InvalidOperation
from typing import Any
from uuid import UUID

from django.utils.dateparse import parse_date, parse_datetime, parse_time

from orbit_django.exceptions import PayloadError

Fields = dict[str, str]


def is_shape(kind: Any) -> bool:
    """Return whether a type describes a JSON object that can be validated."""
    return dataclasses.is_dataclass(kind) or typing.is_typeddict(kind) or hasattr(kind, "model_validate")


def read(value: Any, kind: Any) -> Any:
    """Return the JSON value as the type; raise PayloadError with all fields that do not fit."""
    wrong: Fields = {}
    result = _read(value, kind, "$", wrong)
    if wrong:
        path, text = next(iter(wrong.items()))
        raise PayloadError(path, text, wrong)
    return result


def _read(value: Any, kind: Any, path: str, wrong: Fields) -> Any:
    if kind is Any or kind is None or kind is dataclasses.MISSING:
        return value
    if hasattr(kind, "model_validate"):
        return _model(value, kind, path, wrong)
    if dataclasses.is_dataclass(kind):
        return _record(value, kind, path, wrong)
    if typing.is_typeddict(kind):
        return _typed_dict(value, kind, path, wrong)
    origin = typing.get_origin(kind)
    if origin is not None:
        return _generic(value, kind, origin, path, wrong)
    return _scalar(value, kind, path, wrong)


def _model(value: Any, kind: Any, path: str, wrong: Fields) -> Any:
    try:
        return kind.model_validate(value)
    except ValueError as error:
        listed = error.errors() if hasattr(error, "errors") else [{"loc": (), "msg": str(error)}]
        for item in listed:
            wrong[".".join([path, *map(str, item["loc"])])] = str(item["msg"])
        return None


def _record(value: Any, kind: Any, path: str, wrong: Fields) -> Any:
    if not isinstance(value, Mapping):
        return _miss(value, "an object", path, wrong)
    hints = typing.get_type_hints(kind)
    found: dict[str, Any] = {}
    before = len(wrong)
    for item in dataclasses.fields(kind):
        if not item.init:
            continue
        if item.name in value:
            found[item.name] = _read(value[item.name], hints[item.name], f"{path}.{item.name}", wrong)
        elif item.default is dataclasses.MISSING and item.default_factory is dataclasses.MISSING:
            wrong[f"{path}.{item.name}"] = "is missing"
    if len(wrong) > before:
        return None
    try:
        return kind(**found)
    except (TypeError, ValueError) as error:  # what __post_init__ says of the values
        return _miss(value, f"a valid {kind.__name__} ({error})", path, wrong)


def _typed_dict(value: Any, kind: Any, path: str, wrong: Fields) -> Any:
    if not isinstance(value, Mapping):
        return _miss(value, "an object", path, wrong)
    found = dict(value)
    for name, hint in typing.get_type_hints(kind).items():
        if name in value:
            found[name] = _read(value[name], hint, f"{path}.{name}", wrong)
        elif name in kind.__required_keys__:
            wrong[f"{path}.{name}"] = "is missing"
    return found


def _generic(value: Any, kind: Any, origin: Any, path: str, wrong: Fields) -> Any:
    inner = typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return _union(value, inner, path, wrong)
    if origin is typing.Literal:
        return value if value in inner else _miss(value, f"one of {list(inner)}", path, wrong)
    if origin is typing.Annotated or origin in (typing.Required, typing.NotRequired):
        return _read(value, inner[0], path, wrong)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return _mapping(value, inner, path, wrong)
    if isinstance(origin, type) and issubclass(origin, Sequence | set | frozenset):
        return _items(value, inner, origin, path, wrong)
    return value


def _union(value: Any, kinds: Sequence[Any], path: str, wrong: Fields) -> Any:
    for kind in kinds:
        missed: Fields = {}
        result = _read(value, kind, path, missed)
        if not missed:
            return result
    names = " or ".join(getattr(kind, "__name__", str(kind)) for kind in kinds)
    return _miss(value, names, path, wrong)


def _mapping(value: Any, inner: Sequence[Any], path: str, wrong: Fields) -> Any:
    if not isinstance(value, Mapping):
        return _miss(value, "an object", path, wrong)
    hint = inner[1] if len(inner) > 1 else Any
    return {name: _read(item, hint, f"{path}.{name}", wrong) for name, item in value.items()}


def _items(value: Any, inner: Sequence[Any], origin: Any, path: str, wrong: Fields) -> Any:
    if not isinstance(value, list):
        return _miss(value, "a list", path, wrong)
    hint = inner[0] if inner else Any
    found = [_read(item, hint, f"{path}[{index}]", wrong) for index, item in enumerate(value)]
    return origin(found) if origin in (tuple, set, frozenset) and not wrong else found


def _scalar(value: Any, kind: Any, path: str, wrong: Fields) -> Any:
    if not isinstance(kind, type):
        return value
    if issubclass(kind, enum.Enum):
        try:
            return kind(value)
        except ValueError:
            return _miss(value, f"one of {[item.value for item in kind]}", path, wrong)
    if kind in PARSERS:
        return _parsed(value, kind, path, wrong)
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if kind is int and isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, bool) and kind is int:
        return _miss(value, "int", path, wrong)
    return value if isinstance(value, kind) else _miss(value, kind.__name__, path, wrong)


def _parsed(value: Any, kind: type, path: str, wrong: Fields) -> Any:
    try:
        result = PARSERS[kind](value)
    except (TypeError, ValueError, AttributeError, InvalidOperation):
        result = None
    return result if result is not None else _miss(value, kind.__name__, path, wrong)


def _decimal(value: Any) -> Decimal | None:
    if isinstance(value, bool):
        return None
    number = Decimal(str(value))
    return number if number.is_finite() else None


def _miss(value: Any, expected: str, path: str, wrong: Fields) -> None:
    found = "null" if value is None else type(value).__name__
    wrong[path] = f"expected {expected}, found {found}"


PARSERS: dict[type, Callable[[Any], Any]] = {
    Decimal: _decimal,
    UUID: UUID,
    datetime: parse_datetime,
    date: parse_date,
    time: parse_time,
}

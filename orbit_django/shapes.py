"""Typed inputs and outputs: JSON values read as dataclasses and the types that their fields name.

Validation only: a value either has the shape or every field that has not is named. No coercion that could hide
a mistake: a text is never taken for a number.
"""

from __future__ import annotations

import dataclasses
import enum
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any
from uuid import UUID

from django.core.exceptions import ValidationError
from django.utils.dateparse import parse_date, parse_datetime, parse_duration, parse_time

from orbit_django.exceptions import PayloadError

Fields = dict[str, str]


def is_shape(kind: Any) -> bool:
    """Return whether a type describes a JSON object that can be validated."""
    kind = typing.get_origin(kind) or kind
    is_known = dataclasses.is_dataclass(kind) or typing.is_typeddict(kind) or hasattr(kind, "model_validate")
    return is_known and isinstance(kind, type)


def holds_shape(kind: Any) -> bool:
    """Return whether a type is such a type or is made of one: optional, a list of it, one of several."""
    return is_shape(kind) or any(holds_shape(inner) for inner in typing.get_args(kind))


def unreadable(kind: Any) -> str:
    """Return why a type cannot be looked into, at any depth: the first name in it that nobody defined; else ""."""
    seen: list[Any] = []
    waiting = [kind]
    while waiting:
        kind = waiting.pop()
        if kind in seen:
            continue
        seen.append(kind)
        waiting += typing.get_args(kind)
        try:
            if dataclasses.is_dataclass(kind) or typing.is_typeddict(kind):
                waiting += typing.get_type_hints(kind).values()
        except (NameError, AttributeError, TypeError, SyntaxError) as error:
            return f"a field of {getattr(kind, '__name__', kind)} cannot be read: {error}"
    return ""


def read(value: Any, kind: Any) -> Any:
    """Return the JSON value as the type; raise PayloadError with all fields that do not fit."""
    wrong: Fields = {}
    result = _read(value, kind, "$", wrong)
    if wrong:
        path, text = next(iter(wrong.items()))
        raise PayloadError(path, text, wrong)
    return result


def _read(value: Any, kind: Any, path: str, wrong: Fields) -> Any:
    kind = getattr(kind, "__supertype__", kind)  # what a NewType stands for
    if kind is Any:
        return value
    if hasattr(kind, "model_validate"):
        return _model(value, kind, path, wrong)
    if dataclasses.is_dataclass(kind):
        return _record(value, kind, path, wrong)
    if typing.is_typeddict(kind):
        return _typed_dict(value, kind, path, wrong)
    origin = typing.get_origin(kind) or (kind if kind in (tuple, set, frozenset) else None)
    if origin is not None:
        return _generic(value, kind, origin, path, wrong)
    return _scalar(value, kind, path, wrong)


def _model(value: Any, kind: Any, path: str, wrong: Fields) -> Any:
    try:
        return kind.model_validate(value)
    except ValueError as error:
        listed = error.errors() if hasattr(error, "errors") else [{"loc": (), "msg": str(error)}]
        for item in listed:
            steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in item["loc"])
            wrong["".join([path, *steps])] = str(item["msg"])
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
    except (TypeError, ValueError, AssertionError, ValidationError) as error:  # what __post_init__ says of the values
        return _miss(value, f"a valid {kind.__name__} ({error})", path, wrong)


def _typed_dict(value: Any, kind: Any, path: str, wrong: Fields) -> Any:
    if not isinstance(value, Mapping):
        return _miss(value, "an object", path, wrong)
    found = dict(value)
    for name, hint in typing.get_type_hints(kind, include_extras=True).items():
        if name in value:
            found[name] = _read(value[name], hint, f"{path}.{name}", wrong)
        elif is_required(name, hint, kind):
            wrong[f"{path}.{name}"] = "is missing"
    return found


def is_required(name: str, hint: Any, kind: Any) -> bool:
    """Return whether a member of a TypedDict must be there.

    Trust the mark rather than ``__required_keys__``, which overlooks marks in postponed annotations.
    """
    mark = typing.get_origin(hint)
    return mark is typing.Required or (mark is not typing.NotRequired and name in kind.__required_keys__)


def _generic(value: Any, kind: Any, origin: Any, path: str, wrong: Fields) -> Any:
    inner = typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return _union(value, inner, path, wrong)
    if origin is typing.Literal:
        known = [item for item in inner if item == value and isinstance(item, bool) is isinstance(value, bool)]
        return known[0] if known else _miss(value, f"one of {list(inner)}", path, wrong)
    if is_shape(origin):
        return _read(value, origin, path, wrong)
    if origin in (typing.Annotated, typing.Required, typing.NotRequired):
        return _read(value, inner[0], path, wrong)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return _mapping(value, inner, path, wrong)
    if isinstance(origin, type) and issubclass(origin, Iterable):
        return _items(value, inner, origin, path, wrong)
    return value


def _union(value: Any, kinds: Sequence[Any], path: str, wrong: Fields) -> Any:
    present = [kind for kind in kinds if kind is not types.NoneType]
    if len(present) == 1 and value is not None:
        return _read(value, present[0], path, wrong)
    for kind in kinds:
        missed: Fields = {}
        result = _read(value, kind, path, missed)
        if not missed:
            return result
    return _miss(value, " or ".join(map(_name, kinds)), path, wrong)


def _mapping(value: Any, inner: Sequence[Any], path: str, wrong: Fields) -> Any:
    if not isinstance(value, Mapping):
        return _miss(value, "an object", path, wrong)
    key, hint = inner if len(inner) == 2 else (Any, Any)
    return {
        _read(name, key, f"{path}.{name}", wrong): _read(item, hint, f"{path}.{name}", wrong)
        for name, item in value.items()
    }


def _items(value: Any, inner: Sequence[Any], origin: Any, path: str, wrong: Fields) -> Any:
    if not isinstance(value, list):
        return _miss(value, "a list", path, wrong)
    hints = [inner[0] if inner else Any] * len(value)
    if origin is tuple and inner and inner[-1] is not Ellipsis:
        if len(value) != len(inner):
            return _miss(value, f"a list of {len(inner)}", path, wrong)
        hints = list(inner)
    found = [
        _read(item, hint, f"{path}[{index}]", wrong)
        for index, (item, hint) in enumerate(zip(value, hints, strict=True))
    ]
    try:
        return origin(found) if origin in (tuple, set, frozenset) and not wrong else found
    except TypeError as error:  # a set of what cannot be in one
        return _miss(value, f"items for a set ({error})", path, wrong)


def _scalar(value: Any, kind: Any, path: str, wrong: Fields) -> Any:
    if not isinstance(kind, type):
        return value
    if issubclass(kind, enum.Enum):
        return _member(value, kind, path, wrong)
    if kind in PARSERS:
        return _parsed(value, kind, path, wrong)
    return value if isinstance(value, kind) else _miss(value, _name(kind), path, wrong)


def _member(value: Any, kind: type[enum.Enum], path: str, wrong: Fields) -> Any:
    try:
        found = kind(value)
    except (TypeError, ValueError):
        found = None
    if found is None or isinstance(found.value, bool) is not isinstance(value, bool):
        return _miss(value, f"one of {[item.value for item in kind]}", path, wrong)
    return found


def _parsed(value: Any, kind: type, path: str, wrong: Fields) -> Any:
    try:
        result = PARSERS[kind](value)
    except (TypeError, ValueError, AttributeError, OverflowError, InvalidOperation):
        result = None
    return result if result is not None else _miss(value, _name(kind), path, wrong)


def _integer(value: Any) -> int | None:
    """Read 1 and 1.0, which JSON does not tell apart; true is no number."""
    is_whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    return int(value) if is_whole and not isinstance(value, bool) else None


def _real(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _decimal(value: Any) -> Decimal | None:
    if isinstance(value, bool):
        return None
    number = Decimal(str(value))
    return number if number.is_finite() else None


def _name(kind: Any) -> str:
    return "null" if kind is types.NoneType else getattr(kind, "__name__", str(kind))


def _miss(value: Any, expected: str, path: str, wrong: Fields) -> None:
    found = "null" if value is None else type(value).__name__
    wrong[path] = f"expected {expected}, found {found}"


PARSERS: dict[type, Callable[[Any], Any]] = {
    int: _integer,
    float: _real,
    Decimal: _decimal,
    UUID: UUID,
    datetime: parse_datetime,
    date: parse_date,
    time: parse_time,
    timedelta: parse_duration,
}

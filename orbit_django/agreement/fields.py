"""The fields of a handler's types, each with the kinds of JSON values that it reads or gives.

Kinds are those of JSON Schema: string, integer, number (which may be whole), boolean, null, array, object. Of a hint
that says nothing about them the kinds are None.
"""

from __future__ import annotations

import dataclasses
import enum
import types
import typing
import warnings
from collections.abc import Iterable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from orbit_django import shapes

Kinds = frozenset[str] | None
TEXTS = (UUID, datetime, date, time, timedelta)  # travel as texts in both directions
PLAIN: dict[Any, frozenset[str]] = {
    str: frozenset({"string"}),
    bool: frozenset({"boolean"}),
    int: frozenset({"integer"}),
    float: frozenset({"integer", "number"}),
    types.NoneType: frozenset({"null"}),
    **{kind: frozenset({"string"}) for kind in TEXTS},
}
VALUES = {str: "string", bool: "boolean", int: "integer", float: "number", types.NoneType: "null"}


@dataclasses.dataclass(frozen=True, slots=True)
class Field:
    """One field of an input or of an output."""

    kinds: Kinds  # of values that it reads, or gives
    is_sure: bool  # of an input, whether it must be there; of an output, whether it always is
    told: str  # the type, for messages


@dataclasses.dataclass(frozen=True, slots=True)
class Form:
    """What a type says of a JSON object."""

    name: str  # of the type
    fields: Mapping[str, Field]
    is_open: bool = True  # whether members that it does not name may be there
    is_lenient: bool = False  # whether it may read a value of another kind than it says


def form_of(kind: Any, *, is_output: bool) -> Form | None:
    """Return the fields of a handler's input or output type; None where it names none, or cannot be looked into."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType, typing.Annotated):
        named = inner[:1] if origin is typing.Annotated else [each for each in inner if each is not types.NoneType]
        return form_of(named[0], is_output=is_output) if len(named) == 1 else None
    if not shapes.is_shape(kind) or shapes.unreadable(kind):
        return None
    if hasattr(kind, "model_json_schema"):
        return _model_form(kind, is_output=is_output)
    bare = typing.get_origin(kind) or kind
    hints = typing.get_type_hints(bare, include_extras=True)
    if typing.is_typeddict(bare):
        sure = {name for name, hint in hints.items() if shapes.is_required(name, hint, bare)}
    else:
        sure = {item.name for item in dataclasses.fields(bare) if is_output or _is_needed(item)}
        hints = {item.name: hints[item.name] for item in dataclasses.fields(bare) if is_output or item.init}
    fields = {
        name: Field(kinds_of(hint, is_output=is_output), name in sure, _told(hint)) for name, hint in hints.items()
    }
    return Form(bare.__name__, fields, is_open=not is_output)


def kinds_of(hint: Any, *, is_output: bool) -> Kinds:
    """Return the kinds of JSON values that a type hint reads, or as which its values are sent."""
    hint = getattr(hint, "__supertype__", hint)  # what a NewType stands for
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Annotated, typing.Required, typing.NotRequired):
        return kinds_of(inner[0], is_output=is_output)
    if origin in (typing.Union, types.UnionType):
        return _together(kinds_of(each, is_output=is_output) for each in inner)
    if origin is typing.Literal:
        return _of_values(inner)
    kind = origin or hint
    return _of_class(kind, is_output=is_output) if isinstance(kind, type) else None


def _of_class(kind: type, *, is_output: bool) -> Kinds:
    if issubclass(kind, enum.Enum):
        return _of_values(member.value for member in kind)
    if kind is Decimal:
        return frozenset({"string"} if is_output else {"string", "integer", "number"})
    if kind in PLAIN:
        return PLAIN[kind]
    if shapes.is_shape(kind) or issubclass(kind, Mapping):
        return frozenset({"object"})
    if issubclass(kind, str):
        return frozenset({"string"}) if is_output else None  # what is read is never a class of one's own
    return frozenset({"array"}) if issubclass(kind, list | tuple | set | frozenset) else None


def _of_values(values: Iterable[Any]) -> Kinds:
    return _together(frozenset({VALUES[type(value)]}) if type(value) in VALUES else None for value in values)


def _together(found: Iterable[Kinds]) -> Kinds:
    known: set[str] = set()
    for kinds in found:
        if kinds is None:
            return None
        known |= kinds
    return frozenset(known)


def _is_needed(item: dataclasses.Field[Any]) -> bool:
    return item.init and item.default is dataclasses.MISSING and item.default_factory is dataclasses.MISSING


def _told(hint: Any) -> str:
    return str(getattr(hint, "__name__", hint)) if isinstance(hint, type) else str(hint).replace("typing.", "")


def _model_form(kind: Any, *, is_output: bool) -> Form | None:
    """Ask a pydantic model for its schema, which knows aliases, computed fields and types of its own."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a default that a schema cannot show
            schema = kind.model_json_schema(mode="serialization" if is_output else "validation")
        known = schema.get("$defs", {})
        if "$ref" in schema:  # a model that contains itself
            schema = known[schema["$ref"].rpartition("/")[2]]
        if "properties" not in schema:
            return None  # a model of something else than an object, or of nothing
        kinds = {name: _of_schema(found, known) for name, found in schema["properties"].items()}
    except Exception:  # noqa: BLE001  (the fields' own types have a say, and they are the project's code)
        return None
    needed, more = schema.get("required", ()), schema.get("additionalProperties")
    fields = {
        name: Field(found, is_output or name in needed, " or ".join(sorted(found or {"any"})))
        for name, found in kinds.items()
    }
    return Form(kind.__name__, fields, is_open=bool(more) if is_output else more is not False, is_lenient=not is_output)


def _of_schema(schema: Mapping[str, Any], known: Mapping[str, Any]) -> Kinds:
    if "$ref" in schema:
        return _of_schema(known[schema["$ref"].rpartition("/")[2]], known)
    for word in ("anyOf", "oneOf", "allOf"):
        if word in schema:
            return _together(_of_schema(each, known) for each in schema[word])
    if "type" not in schema:
        values = [schema["const"]] if "const" in schema else schema.get("enum")
        return None if values is None else _of_values(values)
    found = schema["type"]
    return frozenset([found] if isinstance(found, str) else found)

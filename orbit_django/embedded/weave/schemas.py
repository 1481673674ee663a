"""The JSON Schema that capabilities are written in: which schemas are taken, and whether a value matches one."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

Schema = Any  # an object, or true or false

_ANNOTATIONS = {
    "$schema", "$id", "$comment", "title", "description", "default", "examples", "format", "deprecated", "readOnly",
    "writeOnly", "then", "else", "definitions", "$defs",
}  # fmt: skip
BRANCHES = ("allOf", "anyOf", "oneOf")
CONDITIONS = ("if", "then", "else", "not")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_TYPES: dict[str, Callable[[Any], bool]] = {
    "null": lambda value: value is None,
    "boolean": lambda value: isinstance(value, bool),
    "string": lambda value: isinstance(value, str),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
    "number": _is_number,
    "integer": lambda value: _is_number(value) and value == int(value),
}


class UnreadableSchemaError(ValueError):
    """The schema says something that this server cannot follow."""


def resolve(root: Schema, reference: Any) -> Schema:
    """Return what a local reference names; raise UnreadableSchemaError for any other."""
    if not isinstance(reference, str) or not reference.startswith("#"):
        raise UnreadableSchemaError("references stay within their schema")
    found = root
    for part in reference[1:].split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if not isinstance(found, dict) or name not in found:
            raise UnreadableSchemaError("a reference leads nowhere")
        found = found[name]
    return found


def children(schema: dict[str, Any]) -> list[Schema]:
    """Return the schemas directly inside a schema."""
    inner = [schema[name] for name in ("items", "additionalProperties", *CONDITIONS) if name in schema]
    for name in ("properties", "$defs", "definitions"):
        inner += list(schema.get(name, {}).values())
    for name in (*BRANCHES, "prefixItems"):
        inner += schema.get(name, [])
    return inner


def is_supported(schema: Schema, root: Schema = None) -> bool:
    """Say whether a schema is within the profile: known words, known types, local references."""
    if isinstance(schema, bool):
        return True
    if not isinstance(schema, dict):
        return False
    root = schema if root is None else root
    try:
        if "$ref" in schema:
            resolve(root, schema["$ref"])
        re.compile(schema.get("pattern", ""))
        known = all(name in _CHECKS or name in _ANNOTATIONS or name.startswith("x-") for name in schema)
        return known and set(_listed(schema.get("type", []))) <= set(_TYPES) and _all_supported(schema, root)
    except (UnreadableSchemaError, AttributeError, TypeError, re.error):
        return False


def _all_supported(schema: dict[str, Any], root: Schema) -> bool:
    return all(is_supported(child, root) for child in children(schema))


def matches(value: Any, schema: Schema, root: Schema = None) -> bool:
    """Say whether a value matches; raise UnreadableSchemaError for a reference that leads nowhere."""
    if isinstance(schema, bool):
        return schema
    root = schema if root is None else root
    return all(_CHECKS[name](value, schema, root) for name in schema if name in _CHECKS)


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _same(one: Any, other: Any) -> bool:
    """Compare JSON values: 1 is 1.0, and neither is true."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[name], other[name]) for name in one)
    return bool(one == other)


def _count(value: Any, schema: Schema, root: Schema) -> int:
    return sum(matches(value, branch, root) for branch in schema)


def _properties(value: dict[str, Any], schema: dict[str, Any], root: Schema) -> bool:
    return all(matches(value[name], part, root) for name, part in schema["properties"].items() if name in value)


def _additional(value: dict[str, Any], schema: dict[str, Any], root: Schema) -> bool:
    others = value.keys() - schema.get("properties", {}).keys()
    return all(matches(value[name], schema["additionalProperties"], root) for name in others)


def _items(value: list[Any], schema: dict[str, Any], root: Schema) -> bool:
    return all(matches(item, schema["items"], root) for item in value[len(schema.get("prefixItems", [])) :])


def _condition(value: Any, schema: dict[str, Any], root: Schema) -> bool:
    return matches(value, schema.get("then" if matches(value, schema["if"], root) else "else", True), root)


def _is_multiple(value: float, of: float) -> bool:
    return math.isclose(value / of, round(value / of), rel_tol=1e-12)


Check = Callable[[Any, dict[str, Any], Schema], bool]


def _of(kind: type | Callable[[Any], bool], check: Check) -> Check:
    """Let a check look at values of one kind only; others pass."""

    def is_meant(value: Any) -> bool:
        return isinstance(value, kind) if isinstance(kind, type) else kind(value)

    return lambda value, schema, root: not is_meant(value) or check(value, schema, root)


_CHECKS: dict[str, Check] = {
    "$ref": lambda value, schema, root: matches(value, resolve(root, schema["$ref"]), root),
    "type": lambda value, schema, root: any(_TYPES[name](value) for name in _listed(schema["type"])),
    "enum": lambda value, schema, root: any(_same(value, item) for item in schema["enum"]),
    "const": lambda value, schema, root: _same(value, schema["const"]),
    "allOf": lambda value, schema, root: _count(value, schema["allOf"], root) == len(schema["allOf"]),
    "anyOf": lambda value, schema, root: _count(value, schema["anyOf"], root) > 0,
    "oneOf": lambda value, schema, root: _count(value, schema["oneOf"], root) == 1,
    "not": lambda value, schema, root: not matches(value, schema["not"], root),
    "if": _condition,
    "properties": _of(dict, _properties),
    "required": _of(dict, lambda value, schema, root: all(name in value for name in schema["required"])),
    "additionalProperties": _of(dict, _additional),
    "minProperties": _of(dict, lambda value, schema, root: len(value) >= schema["minProperties"]),
    "maxProperties": _of(dict, lambda value, schema, root: len(value) <= schema["maxProperties"]),
    "prefixItems": _of(
        list,
        lambda value, schema, root: all(matches(*pair, root) for pair in zip(value, schema["prefixItems"])),  # noqa: B905
    ),
    "items": _of(list, _items),
    "minItems": _of(list, lambda value, schema, root: len(value) >= schema["minItems"]),
    "maxItems": _of(list, lambda value, schema, root: len(value) <= schema["maxItems"]),
    "minLength": _of(str, lambda value, schema, root: len(value) >= schema["minLength"]),
    "maxLength": _of(str, lambda value, schema, root: len(value) <= schema["maxLength"]),
    "pattern": _of(str, lambda value, schema, root: re.search(schema["pattern"], value) is not None),
    "minimum": _of(_is_number, lambda value, schema, root: value >= schema["minimum"]),
    "maximum": _of(_is_number, lambda value, schema, root: value <= schema["maximum"]),
    "exclusiveMinimum": _of(_is_number, lambda value, schema, root: value > schema["exclusiveMinimum"]),
    "exclusiveMaximum": _of(_is_number, lambda value, schema, root: value < schema["exclusiveMaximum"]),
    "multipleOf": _of(_is_number, lambda value, schema, root: _is_multiple(value, schema["multipleOf"])),
}

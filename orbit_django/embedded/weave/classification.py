"""Whether an output holds a value that a schema marks as secret; any branch that might govern a value counts."""

from __future__ import annotations

from typing import Any

from orbit_django.embedded.weave.schemas import BRANCHES, CONDITIONS, Schema, UnreadableSchemaError, resolve

SECRET_VALUE = "WV-SCHEMA-SECRET_VALUE"  # noqa: S105 (a reason, not a secret)
UNCLASSIFIED = "WV-SCHEMA-CLASSIFICATION"


def reason_to_reject(value: Any, *schemas: Schema) -> str | None:
    """Return the reason code of a rejection, None for an ordinary output."""
    try:
        return SECRET_VALUE if any(_holds_secret(value, schema, schema, ()) for schema in schemas) else None
    except UnreadableSchemaError:
        return UNCLASSIFIED


def _holds_secret(value: Any, schema: Schema, root: Schema, way: tuple[int, ...]) -> bool:
    """Look at one value; ``way`` are the schemas that were seen on it already."""
    if not isinstance(schema, dict):
        return False
    if id(schema) in way:
        raise UnreadableSchemaError("a reference leads back to itself")
    if schema.get("x-secret") is True or schema.get("writeOnly") is True:
        return True
    same = [branch for name in BRANCHES for branch in schema.get(name, [])]
    same += [schema[name] for name in CONDITIONS if name in schema]
    if "$ref" in schema:
        same.append(resolve(root, schema["$ref"]))
    way = (*way, id(schema))
    return any(_holds_secret(value, branch, root, way) for branch in same) or any(
        _holds_secret(part, inner, root, ()) for part, inner in _parts(value, schema)
    )


def _parts(value: Any, schema: dict[str, Any]) -> list[tuple[Any, Schema]]:
    """Return the parts of a value that are there, each with the schema that governs it."""
    if isinstance(value, dict):
        named, others = schema.get("properties", {}), schema.get("additionalProperties", True)
        return [(item, named.get(name, others)) for name, item in value.items()]
    if isinstance(value, list):
        first, rest = schema.get("prefixItems", []), schema.get("items", True)
        return [(item, first[index] if index < len(first) else rest) for index, item in enumerate(value)]
    return []

"""What a Weave platform is told of each handler when a release is admitted: its name, its schemas, its side effect."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Mapping
from typing import Any

from orbit_django.agreement.fields import Field, form_of
from orbit_django.contracts.catalog import Catalog
from orbit_django.contracts.declarations import ANY, FLOAT, INT, LIST, STRING, Shape
from orbit_django.exceptions import ConfigurationError
from orbit_django.tasks import Task

TYPE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
VERSION = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?")
KINDS: dict[str, dict[str, str]] = {
    STRING: {"type": "string"},
    INT: {"type": "integer"},
    FLOAT: {"type": "number"},
    LIST: {"type": "array"},
    ANY: {},
}


def capabilities(
    tasks: Iterable[Task], catalog: Catalog, *, side_effect: str, timeout_seconds: int
) -> list[dict[str, Any]]:
    """Return the capability of each handler, in the order of their names: the same project says the same.

    The schemas are those of CONTRACTS, else of the type hints, else any input and any object. Raises
    ConfigurationError for a name or a version that a platform does not take.
    """
    return [
        {
            "taskType": _fitting(task, task.contract.task_name, TYPE, "a name of letters, digits, _ . and -"),
            "taskVersion": _fitting(task, task.contract.contract_version, VERSION, "a version like 1.0.0"),
            "inputSchema": _schema(task, catalog, is_output=False),
            "outputSchema": _schema(task, catalog, is_output=True),
            "sideEffect": side_effect,
            "timeoutSeconds": timeout_seconds,
        }
        for task in sorted(tasks, key=lambda task: task.contract)
    ]


def _fitting(task: Task, text: str, form: re.Pattern[str], what: str) -> str:
    if not form.fullmatch(text):
        raise ConfigurationError(f"{task.place}: Weave takes {what}, found {text!r}")
    return text


def _schema(task: Task, catalog: Catalog, *, is_output: bool) -> dict[str, Any]:
    contract = catalog.tasks.get((task.contract.task_name, task.contract.contract_version))
    if contract is not None:
        return _of_shape(contract.output if is_output else contract.input)
    return _of_hint(task.output_type if is_output else task.input_type, is_output=is_output)


def _of_shape(shape: Shape) -> dict[str, Any]:
    properties = {name: dict(KINDS[kind]) for name, kind in shape.items()}
    return {"type": "object", "properties": properties, "required": sorted(properties)}


def _of_hint(kind: Any, *, is_output: bool) -> dict[str, Any]:
    if hasattr(kind, "model_json_schema"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a default that a schema cannot show
            schema: dict[str, Any] = kind.model_json_schema(mode="serialization" if is_output else "validation")
        return schema
    form = form_of(kind, is_output=is_output) if kind is not None else None
    if form is None:
        return {"type": "object"} if is_output else {}
    return _of_fields(form.fields)


def _of_fields(fields: Mapping[str, Field]) -> dict[str, Any]:
    properties = {name: _of_kinds(field) for name, field in fields.items()}
    return {
        "type": "object",
        "properties": properties,
        "required": sorted(name for name, field in fields.items() if field.is_sure),
    }


def _of_kinds(field: Field) -> dict[str, Any]:
    if field.kinds is None:
        return {}
    kinds = sorted(field.kinds - {"integer"} if "number" in field.kinds else field.kinds)
    return {"type": kinds[0] if len(kinds) == 1 else kinds}

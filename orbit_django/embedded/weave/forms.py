"""The bodies of requests, strictly: every member known, of its type and within its bounds, or a 422."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable
from typing import Any

from orbit_django.embedded.weave.problems import invalid

Read = Callable[[Any], Any]
SIDE_EFFECTS = ("read_only", "idempotent", "idempotency_key", "non_idempotent")
_SEMVER = r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?"
_NAME = r"[A-Za-z0-9][A-Za-z0-9_.-]*"


class Form:
    """An object with exactly these members; ``optional`` ones have a default."""

    def __init__(self, required: dict[str, Read], optional: dict[str, tuple[Read, Any]] | None = None) -> None:
        self._required = required
        self._optional = optional or {}

    def __call__(self, value: Any) -> dict[str, Any]:
        """Return the checked members, with the defaults of those left out."""
        if not isinstance(value, dict) or set(value) - set(self._required) - set(self._optional):
            raise invalid()
        if set(self._required) - set(value):
            raise invalid()
        body = {name: read(value[name]) for name, read in self._required.items()}
        for name, (read, default) in self._optional.items():
            body[name] = read(value[name]) if name in value else default
        return body


def anything(value: Any) -> Any:
    """Take any JSON."""
    return value


def identifier(value: Any) -> str:
    """Take a UUID written as a text."""
    try:
        return str(uuid.UUID(_text(value)))
    except ValueError:
        raise invalid() from None


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise invalid()
    return value


def text(pattern: str, longest: int) -> Read:
    """Take a text of this form."""

    def read(value: Any) -> str:
        if len(_text(value)) > longest or not re.fullmatch(pattern, value, re.DOTALL):
            raise invalid()
        return str(value)

    return read


def whole(least: int, most: int = 2**53 - 1) -> Read:
    """Take a whole number; 1.0 is none."""

    def read(value: Any) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise invalid()
        return value

    return read


def one_of(*words: str) -> Read:
    """Take one of these words."""

    def read(value: Any) -> str:
        if _text(value) not in words:
            raise invalid()
        return str(value)

    return read


def listed(read: Read, least: int, most: int) -> Read:
    """Take a list of these."""

    def read_all(value: Any) -> list[Any]:
        if not isinstance(value, list) or not least <= len(value) <= most:
            raise invalid()
        return [read(item) for item in value]

    return read_all


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise invalid()
    return value


_TASK_TYPE = text(f"{_NAME}@{_SEMVER}", 400)
_PROOF = Form(
    {"task_id": identifier, "generation": whole(1), "owner": identifier, "token": text(".+", 200)},
)
_CAPABILITY = Form(
    {
        "taskType": text(_NAME, 200),
        "taskVersion": text(_SEMVER, 200),
        "inputSchema": _object,
        "outputSchema": _object,
        "sideEffect": one_of(*SIDE_EFFECTS),
        "timeoutSeconds": whole(1),
    }
)
_ERROR = Form(
    {"completion_id": identifier, "code": text(r"[A-Z][A-Z0-9_-]{0,63}", 64)},
    {"outcome": (one_of("not_started", "failed", "unknown"), "unknown")},
)

FORMS: dict[str, Form] = {
    "admit": Form(
        {"image_digest": text("sha256:[0-9a-f]{64}", 71), "capabilities": listed(_CAPABILITY, 1, 100)},
        {
            "credential_capabilities": (listed(_TASK_TYPE, 0, 100), []),
            "connector_bindings": (listed(anything, 0, 100), []),
        },
    ),
    "register": Form(
        {"release_id": identifier, "task_types": listed(_TASK_TYPE, 1, 100), "capacity": whole(1, 100)},
    ),
    "claim": Form({"worker_id": identifier, "limit": whole(1, 100)}),
    "heartbeat": _PROOF,
    "context": _PROOF,
    "complete": Form({"lease": _PROOF, "completion_id": identifier, "output": anything}),
    "fail": Form({"lease": _PROOF, "error": _ERROR}),
    "credentials": Form({"lease": _PROOF, "connection_revision_id": identifier, "slot": text(".+", 100)}),
    "grant": Form({"release_id": identifier, "connection_revision_id": identifier, "capability": _TASK_TYPE}),
}

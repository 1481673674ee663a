"""The shape of request bodies: what must be there, and of which type (O012, O017).

A body that is not JSON is a 400, one of the wrong shape a 422, both in plain text. Unknown members are ignored.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from orbit_django.embedded.answers import Answer, text_answer

Check = Callable[[Any], bool]


class BodyError(Exception):
    """The body cannot be used; ``answer`` says so to the client."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer.body.decode())
        self.answer = answer


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def _is_anything(value: Any) -> bool:
    return True


def _is_contracts(value: Any) -> bool:
    names = ("task_name", "contract_version")
    return isinstance(value, list) and all(
        isinstance(item, dict) and all(isinstance(item.get(name), str) for name in names) for item in value
    )


_SESSION: dict[str, Check] = {"worker_session_id": _is_text}
_REQUIRED: dict[str, dict[str, Check]] = {
    "register": {"worker_id": _is_text, "runtime": _is_text, "contracts": _is_contracts},
    "poll": _SESSION,
    "heartbeat": _SESSION,
    "unregister": _SESSION,
    "complete": {"token": _is_text},
    "fail": {"token": _is_text, "error_code": _is_text},
    "start": {"workflow": _is_text},
    "cancel": {},
}
_OPTIONAL: dict[str, dict[str, Check]] = {
    "register": {"sdk": _is_text},
    "poll": {"wait_ms": _is_count},
    "complete": {"output": _is_anything},
    "fail": {"error_message": _is_text, "retryable": _is_flag, "details": _is_anything},
    "start": {"input": _is_anything, "execution_id": _is_text, "version": _is_text},
    "cancel": {"reason": _is_text},
}


def read_body(form: str, raw: bytes) -> dict[str, Any]:
    """Return the checked members of a body; optional ones that are null or missing are left out.

    Raises BodyError.
    """
    value = _parse(raw)
    if not isinstance(value, dict):
        _refuse_shape("expected a JSON object")
    body: dict[str, Any] = {}
    for name, check in _REQUIRED[form].items():
        if name not in value:
            _refuse_shape(f"missing field `{name}`")
        body[name] = _checked(name, value, check)
    for name, check in _OPTIONAL.get(form, {}).items():
        if value.get(name) is not None:
            body[name] = _checked(name, value, check)
    return body


def _parse(raw: bytes) -> Any:
    try:
        text = raw.decode("utf-8")
        value = json.loads(text, parse_constant=_no_constant)
        if re.search(r"\\u[dD][89a-fA-F]", text):
            json.dumps(value, ensure_ascii=False).encode("utf-8")  # fails for half of a surrogate pair
    except (ValueError, RecursionError) as error:
        answer = text_answer(400, f"Failed to parse the request body as JSON: {error}")
        raise BodyError(answer) from None
    return value


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _checked(name: str, value: Mapping[str, Any], check: Check) -> Any:
    if not check(value[name]):
        _refuse_shape(f"field `{name}` has the wrong type")
    return value[name]


def _refuse_shape(text: str) -> NoReturn:
    raise BodyError(text_answer(422, f"Failed to deserialize the JSON body into the target type: {text}"))

"""JSON in and out: strict encoding of what handlers return, fingerprints of what they were given.

What is encoded here is stored and sent as it is, so everything that a runtime or a database could refuse is
refused here, with the path of the culprit, before anything was written.
"""

from __future__ import annotations

import dataclasses
import enum
import hashlib
import json
import math
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from django.core.serializers.json import DjangoJSONEncoder

from orbit_django.exceptions import AbandonedError, PayloadError, PayloadTooLargeError
from orbit_django.protocol import Completion, Failure

MAX_DEPTH = 100  # strict parsers commonly stop at 128 levels; the body adds its own
MAX_BITS = 14_284  # Python itself neither writes nor reads numbers with more than 4300 digits
CUT_MARK = " […]"
_default: Callable[[Any], Any] = DjangoJSONEncoder().default
# ``json.dumps`` makes an encoder for each text that is not written in its own way.
_ascii = json.JSONEncoder(allow_nan=False, separators=(",", ":"))
_unescaped = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
_quoted: Callable[[str], str] = json.encoder.encode_basestring_ascii


def plain(value: Any, path: str = "$", depth: int = 0) -> Any:
    """Return the value as plain JSON types; raise PayloadError naming the path of what has no such form.

    Dataclasses and pydantic models become objects; Decimal, dates, times, UUID and lazy texts become texts as
    Django's own encoder writes them (O157, O090). Whatever a value's own code raises, short of an exit, means that
    it has no such form.
    """
    if depth > MAX_DEPTH:
        raise PayloadError(path, f"is nested deeper than {MAX_DEPTH} levels, or contains itself")
    try:
        if value is None or isinstance(value, bool | int | float):
            return _writable(value, path)
        if isinstance(value, str):
            return _valid_text(value, path)
        if isinstance(value, list | tuple):
            return [plain(item, f"{path}[{index}]", depth + 1) for index, item in enumerate(value)]
        if isinstance(value, dict):
            return {_key(name, path): plain(item, f"{path}.{name}", depth + 1) for name, item in value.items()}
        return plain(_simpler(value, path), path, depth + 1)
    except PayloadError:
        raise
    except Exception as error:  # noqa: BLE001  (properties and serializers are the handler's code)
        told = f" ({type(error).__name__})" if not isinstance(error, TypeError | ValueError) else ""
        raise PayloadError(path, f"is of type {type(value).__name__}, which has no JSON form{told}") from None


def _valid_text(value: str, path: str) -> str:
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise PayloadError(ascii(path)[1:-1], "holds half of a surrogate pair, which no JSON can carry") from None
    return value


def _writable(value: Any, path: str) -> Any:
    if isinstance(value, float):
        if not math.isfinite(value):
            raise PayloadError(path, f"is {value}, which JSON does not have")
    elif value is not None and value.bit_length() > MAX_BITS:
        raise PayloadError(path, "is a whole number with thousands of digits, which no reader would take")
    return value


def _key(name: object, path: str) -> str:
    if not isinstance(name, str):
        shown = words_of(name, repr)
        raise PayloadError(path, f"has the key {shown} of type {type(name).__name__}; JSON keys are texts")
    return _valid_text(name, f"{path}.{name}")


def _simpler(value: Any, path: str) -> Any:
    """Return a rich value one step closer to JSON."""
    if isinstance(value, Decimal) and not value.is_finite():
        raise PayloadError(path, f"is {value}, which JSON does not have")
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, enum.Enum):
        return value.value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {item.name: getattr(value, item.name) for item in dataclasses.fields(value)}
    if hasattr(type(value), "model_dump"):
        return value.model_dump(mode="json", by_alias=True)
    return _default(value)


def compact(value: Any, *, is_ascii: bool = True) -> str:
    """Return plain JSON types as text without blanks.

    ASCII by default: such a text survives every database encoding, U+0000 included.
    """
    return (_ascii if is_ascii else _unescaped).encode(value)


def encode_output(value: dict[str, Any], limit: int, token: str = "") -> str:
    """Return a plain JSON object as text (O090).

    The whole request body is measured against ``limit``, in bytes; PayloadTooLargeError names both. A text that
    only fits unescaped is written in UTF-8.
    """
    text = compact(value)
    if len(body_of(token, Completion(text))) > limit:
        text = compact(value, is_ascii=False)
        size = len(body_of(token, Completion(text)).encode())
        if size > limit:
            raise PayloadTooLargeError(size, limit)
    return text


def encode_failure(failure: Failure, limit: int) -> str:
    """Return a failure's fields as JSON text, cut to fit ``limit`` bytes (a failure is never too large to report)."""
    code = _without_surrogates(failure.code).strip()[:200] or "UNHANDLED_EXCEPTION"
    room = max(limit // 4, 256)
    fields: dict[str, Any] = {
        "error_code": code,
        "error_message": cut(_without_surrogates(failure.message), room // 6),
        "retryable": bool(failure.retryable),
    }
    if failure.details is not None:
        details = lenient(failure.details)
        text = compact(details)
        fields["details"] = details if len(text) <= room else {"cut": True, "text": cut(text, room // 2)}
    return compact(fields)


def body_of(token: str, outcome: Completion, completion_id: str = "") -> str:
    """Return the request body that completes the token (O090); a completion id, where there is one, stands second."""
    return f'{{"token":{compact(token)},{_own_id(completion_id)}"output":{outcome.output}}}'


def failure_body(token: str, fields: str, completion_id: str = "") -> str:
    """Return the request body that fails the token with the fields of ``encode_failure`` (O100)."""
    return f'{{"token":{compact(token)},{_own_id(completion_id)}{fields[1:]}'


def _own_id(completion_id: str) -> str:
    return f'"completion_id":{compact(completion_id)},' if completion_id else ""


def fingerprint(value: Any) -> str:
    """Return a digest that is equal for equal JSON values, however deep they are.

    Member order, spacing, escapes and the form of a number (1, 1.0, 1e0) make no difference; true is not 1.
    """
    pieces: list[bytes] = []
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, list):
            pieces.append(b"[%d," % len(item))
            waiting.extend(item)
        elif isinstance(item, dict):
            pieces.append(b"{%d," % len(item))
            for name in sorted(item):
                waiting += (item[name], name)
        elif isinstance(item, str):
            pieces.append(_quoted(item).encode() + b",")
        elif type(item) is int:
            pieces.append(b"%d," % item)
        else:
            is_whole = isinstance(item, float) and item.is_integer()
            pieces.append(json.dumps(int(item) if is_whole else item).encode() + b",")
    return hashlib.sha256(b"".join(pieces)).hexdigest()


def digest(*parts: str) -> str:
    """Return a digest of texts that no other list of texts shares; any text will do, of any length."""
    raws = [part.encode("utf-8", "surrogatepass") for part in parts]
    return hashlib.sha256(b"".join([len(raw).to_bytes(8, "big") + raw for raw in raws])).hexdigest()


def effect_key(task_name: str, step_kind: str, idempotency_key: str, name: str) -> str:
    """Return the text that names an effect of a step in every run; see ``TaskContext.effect_key``."""
    return digest("effect", task_name, step_kind, idempotency_key, name)


def counted(count: int, noun: str) -> str:
    """Return a number with its noun, which is given for one: ``1 task``, ``2,000 tasks``, ``2 processes``."""
    ending = "es" if noun.endswith("s") else "s"
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}{ending}"


def cut(text: str, length: int) -> str:
    """Return a text for people, shortened with a mark when it is longer than ``length``."""
    return text if len(text) <= length else text[: max(length - len(CUT_MARK), 0)] + CUT_MARK


def storable(text: str, length: int | None = None) -> str:
    """Return a text that every database can keep: no U+0000, no half surrogates; cut when a length is given."""
    text = _without_surrogates(text.replace("\x00", "\N{REPLACEMENT CHARACTER}"))
    return text if length is None else cut(text, length)


def _without_surrogates(text: str) -> str:
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def lenient(details: Any) -> Any:
    """Return details as plain JSON types whatever they are: what has no such form as one text."""
    try:
        return plain(details)
    except AbandonedError:
        raise
    except BaseException:  # noqa: BLE001  (it may even exit)
        return {"text": _without_surrogates(words_of(details, repr))}


def words_of(value: Any, show: Callable[[Any], str] = str) -> str:
    """Return what an object says of itself, or its type's name when it says nothing, raises, or even exits.

    For objects of handlers, exceptions among them: looking at one runs the handler's code.
    """
    try:
        return "".join([show(value)]) or type(value).__name__
    except AbandonedError:
        raise
    except BaseException:  # noqa: BLE001
        return type(value).__name__

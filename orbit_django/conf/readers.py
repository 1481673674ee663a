"""How each setting is read: a function that returns the value in its own type, or raises with what was expected.

The texts of these errors are shown to people, so none repeats what may be a credential.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from django.conf import settings

from orbit_django.conf.addresses import read_listening, split_target
from orbit_django.conf.texts import is_http, read_name, read_secret, read_text, read_url
from orbit_django.conf.weave import read_weave
from orbit_django.protocol import MAX_WAIT_MS

LOG_LEVELS = ("CRITICAL", "ERROR", "WARNING", "INFO", "DEBUG")
TRANSPORTS = ("http", "grpc", "weave")


def _proxy(value: Any) -> str:
    text = read_name(value)
    if not is_http(text):
        raise ValueError("expected a URL of the form http://host:port")
    return text


def _file(value: Any) -> str:
    path = Path(read_text(value))
    try:
        with path.open("rb"):
            return str(path)
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from None


def _whole(low: int, high: int = 1_000_000_000) -> Callable[[Any], int]:
    def read(value: Any) -> int:
        try:
            number = int(value)
            is_whole = not isinstance(value, bool) and (isinstance(value, str) or number == value)
        except (TypeError, ValueError, OverflowError):
            number, is_whole = 0, False
        if not is_whole or not low <= number <= high:
            raise ValueError(f"expected a whole number from {low} to {high}, found {_brief(value)}")
        return number

    return read


def _between(low: float, high: float) -> Callable[[Any], float]:
    def read(value: Any) -> float:
        try:
            number = float(value) if not isinstance(value, bool) else -1.0
        except (TypeError, ValueError, OverflowError):
            number = -1.0
        if not low <= number <= high:
            raise ValueError(f"expected a number from {_plain(low)} to {_plain(high)}, found {_brief(value)}")
        return number

    return read


def _plain(number: float) -> str:
    return str(int(number)) if number == int(number) else f"{number:g}"


def _brief(value: Any) -> str:
    text = repr(value) if not isinstance(value, int) or value.bit_length() < 256 else "a number without end"
    return text if len(text) <= 100 else f"{text[:100]}…"


def _wait(value: Any) -> int:
    return min(max(_whole(0)(value), 1), MAX_WAIT_MS)


def _level(value: Any) -> str:
    text = read_text(value).upper()
    if text not in LOG_LEVELS:
        raise ValueError(f"expected one of {', '.join(LOG_LEVELS)}, found {value!r}")
    return text


def _alias(value: Any) -> str:
    if read_text(value) not in settings.DATABASES:
        raise ValueError(f"there is no database alias {value!r} in DATABASES")
    return str(value)


def _transport(value: Any) -> str:
    text = read_text(value)
    if text not in TRANSPORTS and "." not in text:
        raise ValueError(f"{text!r} is unknown; expected {', '.join(map(repr, TRANSPORTS))} or a dotted path")
    return text


def _target(value: Any) -> str:
    """Read the address of the gRPC side; a text that may hold a credential is not repeated."""
    text = read_name(value)
    split_target(text)
    return text.lower()


def _paths(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list | tuple):
        raise TypeError(f"expected a list of paths, found {type(value).__name__}")
    return tuple(read_text(path) for path in value)


READERS: dict[str, Callable[[Any], Any]] = {
    "server": read_url,
    "worker_token": read_secret,
    "worker_token_file": read_text,
    "token": read_secret,
    "ca_cert": _file,
    "client_cert": _file,
    "client_key": _file,
    "proxy": _proxy,
    "log_level": _level,
    "transport": _transport,
    "grpc_target": _target,
    "runtime": read_name,
    "worker_id": read_name,
    "concurrency": _whole(1, 1000),
    "poll_wait_ms": _wait,
    "drain_timeout": _between(0, 1_000_000_000),
    "database": _alias,
    "max_body_bytes": _whole(1024),
    "max_redeliveries": _whole(0, 1_000_000),
    "claim_seconds": _between(1, 86_400),
    "retention_days": _between(0, 100_000),
    "contracts": _paths,
    "weave": read_weave,
}

# Options of the worker's command that are no settings.
OPTIONS: dict[str, Callable[[Any], Any]] = {
    "processes": _whole(1, 256),
    "max_tasks": _whole(1),
    "burst": bool,
    "reload": bool,
    "lifeline": _whole(0, 1_000_000),
    "health": read_listening,
}

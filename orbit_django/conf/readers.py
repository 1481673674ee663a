"""How each setting is read: a function that returns the value in its own type, or raises with what was expected.

The texts of these errors are shown to people, so none repeats what may be a credential.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings

from orbit_django.conf.addresses import read_listening
from orbit_django.protocol import MAX_WAIT_MS

LOG_LEVELS = ("CRITICAL", "ERROR", "WARNING", "INFO", "DEBUG")
TRANSPORTS = ("http",)
MAX_NAME = 255  # what the tables keep of a server's URL and of a worker's id


def is_header_text(text: str) -> bool:
    """Return whether a text can be sent as a bearer token."""
    return text.isascii() and text.isprintable() and text == text.strip()


def _text(value: Any) -> str:
    if not isinstance(value, str | Path):
        raise TypeError(f"expected a text, found {type(value).__name__}")
    return str(value)


def _secret(value: Any) -> str:
    text = _text(value)
    if not is_header_text(text):
        raise ValueError("the token holds blanks at its ends, or characters that no header can carry")
    return text


def _url(value: Any) -> str:
    """Read the runtime's URL; a text that may hold a credential is not repeated."""
    text = _name(value).rstrip("/")
    if "@" in text:
        raise ValueError("the URL must not carry a user or a password; use WORKER_TOKEN")
    if "?" in text or "#" in text:
        raise ValueError("the URL has a query or a fragment; expected http://host:port")
    if not _is_http(text):
        raise ValueError(f"{text!r} is no URL of the form http://host:port or https://host:port")
    parts = urlsplit(text)
    return parts._replace(netloc=parts.netloc.lower()).geturl()  # one spelling: messages belong to a server by it


def _proxy(value: Any) -> str:
    text = _name(value)
    if not _is_http(text):
        raise ValueError("expected a URL of the form http://host:port")
    return text


def _is_http(text: str) -> bool:
    try:
        parts = urlsplit(text)
        is_whole = bool(parts.hostname) and parts.port != 0 and not set(' \\"<>') & set(text)
    except ValueError:  # a port that is no number, half an IPv6 address
        return False
    return is_whole and parts.scheme in ("http", "https")


def _file(value: Any) -> str:
    path = Path(_text(value))
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
    text = _text(value).upper()
    if text not in LOG_LEVELS:
        raise ValueError(f"expected one of {', '.join(LOG_LEVELS)}, found {value!r}")
    return text


def _alias(value: Any) -> str:
    if _text(value) not in settings.DATABASES:
        raise ValueError(f"there is no database alias {value!r} in DATABASES")
    return str(value)


def _name(value: Any) -> str:
    text = _text(value)
    if not text.isprintable() or text != text.strip():
        raise ValueError("has blanks at its ends, or characters that cannot be shown")
    if len(text) > MAX_NAME:
        raise ValueError(f"has {len(text)} characters, at most {MAX_NAME} can be kept")
    return text


def _transport(value: Any) -> str:
    text = _text(value)
    if text not in TRANSPORTS and "." not in text:
        raise ValueError(f"{text!r} is unknown; expected {', '.join(map(repr, TRANSPORTS))} or a dotted path")
    return text


def _paths(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list | tuple):
        raise TypeError(f"expected a list of paths, found {type(value).__name__}")
    return tuple(_text(path) for path in value)


def _mapping(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise TypeError("expected a dictionary")
    return value


READERS: dict[str, Callable[[Any], Any]] = {
    "server": _url,
    "worker_token": _secret,
    "worker_token_file": _text,
    "token": _secret,
    "ca_cert": _file,
    "client_cert": _file,
    "client_key": _file,
    "proxy": _proxy,
    "log_level": _level,
    "transport": _transport,
    "grpc_target": _text,
    "runtime": _name,
    "worker_id": _name,
    "concurrency": _whole(1, 1000),
    "poll_wait_ms": _wait,
    "drain_timeout": _between(0, 1_000_000_000),
    "database": _alias,
    "max_body_bytes": _whole(1024),
    "max_redeliveries": _whole(0, 1_000_000),
    "claim_seconds": _between(1, 86_400),
    "retention_days": _between(0, 100_000),
    "contracts": _paths,
    "weave": _mapping,
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

"""The ORBIT settings as one frozen, typed object; the only place that reads the environment.

Each key resolves through command line, ``settings.ORBIT``, environment and default, in this order; None and the
empty text count as unset (O200).
"""

from __future__ import annotations

import difflib
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import environ
from django.conf import settings

from orbit_django.exceptions import ConfigurationError
from orbit_django.protocol import MAX_WAIT_MS

DEFAULT_SERVER = "http://127.0.0.1:7233"
LOG_LEVELS = ("CRITICAL", "ERROR", "WARNING", "INFO", "DEBUG")
FROM_ENVIRONMENT = ("SERVER", "WORKER_TOKEN", "TOKEN", "CA_CERT", "CLIENT_CERT", "CLIENT_KEY", "LOG_LEVEL")
MASK = "********"


@dataclass(frozen=True, kw_only=True)
class OrbitSettings:
    """Every setting with its meaning; the defaults are those of a laptop."""

    server: str = DEFAULT_SERVER  # URL of the runtime, without a trailing slash
    worker_token: str | None = field(default=None, repr=False)  # shared worker token or identity token
    worker_token_file: str | None = None  # a file that holds it instead, read again when it changes
    token: str | None = field(default=None, repr=False)  # admin token: starting and reading executions
    ca_cert: str | None = None  # PEM file of the CA to trust instead of the system's
    client_cert: str | None = None  # PEM file of the client certificate
    client_key: str | None = None  # PEM file of its key; without it the key is read from the certificate's file
    proxy: str | None = None  # URL of a proxy; the environment's proxy variables are ignored
    log_level: str = "INFO"
    transport: str = "http"  # "http", or the dotted path of a binding
    grpc_target: str | None = None  # host:port of the runtime's gRPC side
    runtime: str = "python"  # the language announced, matched with ``using`` (O053)
    worker_id: str = ""  # stable identity; empty: python-<host>-<pid>
    concurrency: int = 4  # poll loops, and so handlers at the same time
    poll_wait_ms: int = 20_000  # how long the runtime may hold an empty poll
    drain_timeout: float | None = None  # seconds that running handlers get at shutdown; None: as long as they need
    database: str = "default"  # alias of tasks that name none
    max_body_bytes: int = 4 * 1024 * 1024  # the runtime's --max-body
    max_redeliveries: int = 5  # runs of one attempt that may end with their process
    claim_seconds: float = 30.0  # how long a claim of a non-atomic task lives without renewal
    retention_days: float = 30.0  # age at which what is settled may be pruned
    contracts: tuple[str, ...] = ()  # paths of .orbit files
    weave: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @cached_property
    def _token_file(self) -> TokenFile | None:
        return TokenFile(self.worker_token_file) if self.worker_token_file else None

    @property
    def credential(self) -> str | None:
        """The worker's bearer token: WORKER_TOKEN, else WORKER_TOKEN_FILE, else TOKEN; None when there is none."""
        if self.worker_token:
            return self.worker_token
        return self._token_file.read() if self._token_file else self.token

    def worker_name(self) -> str:
        """Return the identity to register under (O195)."""
        return self.worker_id or f"python-{socket.gethostname()}-{os.getpid()}"

    def redact(self, text: str) -> str:
        """Return the text without any credential that these settings know."""
        held = self._token_file.seen if self._token_file else ()
        for secret in (self.worker_token, self.token, *held):
            if secret:
                text = text.replace(secret, MASK)
        return text


class TokenFile:
    """A file that holds a bearer token, read again when it changes; unreadable, the last token stays in use."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._stamp: tuple[int, int] | None = None
        self.seen: tuple[str, ...] = ()

    def read(self) -> str | None:
        """Return the token in the file; raise ConfigurationError when there never was one."""
        try:
            stat = self._path.stat()
            if (stat.st_mtime_ns, stat.st_ino) != self._stamp:
                text = self._path.read_text(encoding="utf-8").strip()
                if text:
                    self.seen = (*(old for old in self.seen if old != text), text)[-3:]
                    self._stamp = (stat.st_mtime_ns, stat.st_ino)
        except (OSError, UnicodeDecodeError) as error:
            if not self.seen:
                raise ConfigurationError(f"WORKER_TOKEN_FILE: {self._path} cannot be read: {error}") from None
        if not self.seen:
            raise ConfigurationError(f"WORKER_TOKEN_FILE: {self._path} is empty")
        return self.seen[-1]


def load(**options: Any) -> OrbitSettings:
    """Return the settings in force; ``options`` are command-line values by lower-case name.

    Raises ConfigurationError for the first fault found; ``faults`` lists them all.
    """
    found, wrong = _resolve(options)
    if wrong:
        raise ConfigurationError(wrong[0])
    return OrbitSettings(**found)


def faults(**options: Any) -> list[str]:
    """Return one text for each wrong setting; each begins with the setting's name."""
    return _resolve(options)[1]


def unknown_keys() -> list[tuple[str, str]]:
    """Return each key of ``settings.ORBIT`` that does not exist, with the most similar one that does (or "")."""
    known = [name.upper() for name in OrbitSettings.__dataclass_fields__]
    given = _from_project()
    close = {key: difflib.get_close_matches(str(key).upper(), known, n=1) for key in given if key not in known}
    return [(str(key), "".join(names)) for key, names in close.items()]


def _from_project() -> Mapping[str, Any]:
    given = getattr(settings, "ORBIT", None) or {}
    if not isinstance(given, Mapping):
        raise ConfigurationError("ORBIT: the setting is to be a dictionary")
    return given


def _from_environment() -> dict[str, Any]:
    read = environ.Env.ENVIRON
    return {name: read.get(f"ORBIT_{name}") for name in FROM_ENVIRONMENT}


def _resolve(options: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    try:
        project = _from_project()
    except ConfigurationError as error:
        return {}, [str(error)]
    surroundings = _from_environment()
    found: dict[str, Any] = {}
    wrong: list[str] = []
    for name in OrbitSettings.__dataclass_fields__:
        sources = (options.get(name), project.get(name.upper()), surroundings.get(name.upper()))
        value = next((value for value in sources if value is not None and value != ""), None)
        if value is None:
            continue
        try:
            found[name] = READERS.get(name, _text)(value)
        except (TypeError, ValueError, OverflowError) as error:
            wrong.append(f"{name.upper()}: {error}")
    if found.get("client_key") and not found.get("client_cert"):
        wrong.append("CLIENT_KEY: a key needs CLIENT_CERT, the certificate that it belongs to")
    return found, wrong


def _text(value: Any) -> str:
    if not isinstance(value, str | Path):
        raise TypeError(f"expected a text, found {type(value).__name__}")
    return str(value)


def _secret(value: Any) -> str:
    text = _text(value)
    if not text.isascii() or not text.isprintable() or text != text.strip():
        raise ValueError("the token holds blanks at its ends, or characters that no header can carry")
    return text


def _url(value: Any) -> str:
    text = _text(value).rstrip("/")
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise ValueError("the URL's port is to be a number") from None
    if parts.username or parts.password:
        raise ValueError("the URL must not carry a user or a password; use WORKER_TOKEN")
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0 or " " in text:
        raise ValueError(f"{text!r} is no URL of the form http://host:port or https://host:port")
    if parts.query or parts.fragment:
        raise ValueError(f"{text!r} has a query or a fragment; expected http://host:port")
    return text


def _proxy(value: Any) -> str:
    text = _text(value)
    if urlsplit(text).scheme not in ("http", "https") or not urlsplit(text).hostname:
        raise ValueError("expected a URL of the form http://host:port")
    return text


def _file(value: Any) -> str:
    path = Path(_text(value))
    try:
        with path.open("rb"):
            return str(path)
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from None


def _whole(low: int, high: int | None = None) -> Any:
    def read(value: Any) -> int:
        try:
            number = int(value) if not isinstance(value, bool | float) or value == int(value) else None
        except (TypeError, ValueError, OverflowError):
            number = None
        if number is None or isinstance(value, bool) or number < low or (high is not None and number > high):
            limits = f"from {low} to {high}" if high is not None else f"of at least {low}"
            raise ValueError(f"expected a whole number {limits}, found {value!r}")
        return number

    return read


def _positive(value: Any) -> float:
    try:
        number = float(value) if not isinstance(value, bool) else -1.0
    except (TypeError, ValueError):
        number = -1.0
    if not 0 <= number < float("inf"):
        raise ValueError(f"expected a number of at least 0, found {value!r}")
    return number


def _wait(value: Any) -> int:
    number: int = _whole(0)(value)
    return min(max(number, 1), MAX_WAIT_MS)


def _level(value: Any) -> str:
    text = _text(value).upper()
    if text not in LOG_LEVELS:
        raise ValueError(f"expected one of {', '.join(LOG_LEVELS)}, found {value!r}")
    return text


def _alias(value: Any) -> str:
    if value not in settings.DATABASES:
        raise ValueError(f"there is no database alias {value!r} in DATABASES")
    return str(value)


def _name(value: Any) -> str:
    text = _text(value)
    if not text.strip():
        raise ValueError("is blank")
    return text


def _paths(value: Any) -> tuple[str, ...]:
    if isinstance(value, str | Path):
        raise TypeError("expected a list of paths, found a single text")
    return tuple(_text(path) for path in value)


def _mapping(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise TypeError("expected a dictionary")
    return value


READERS: dict[str, Any] = {
    "server": _url,
    "worker_token": _secret,
    "token": _secret,
    "ca_cert": _file,
    "client_cert": _file,
    "client_key": _file,
    "proxy": _proxy,
    "log_level": _level,
    "runtime": _name,
    "worker_id": _name,
    "concurrency": _whole(1, 1000),
    "poll_wait_ms": _wait,
    "drain_timeout": _positive,
    "database": _alias,
    "max_body_bytes": _whole(1024),
    "max_redeliveries": _whole(0, 1_000_000),
    "claim_seconds": _positive,
    "retention_days": _positive,
    "contracts": _paths,
    "weave": _mapping,
}

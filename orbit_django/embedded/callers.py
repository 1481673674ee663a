"""Who calls, and what that one may do: the credentials of a runtime and the limits of each (O030 to O041)."""

from __future__ import annotations

import hashlib
import hmac
import re
import tomllib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from orbit_django.exceptions import ConfigurationError, RuntimeRefusalError

WORKER_PATHS = ("/v1/workers/", "/v1/tasks/")


@dataclass(frozen=True, slots=True)
class Identity:
    """One entry of the workers file."""

    id: str
    tasks: tuple[str, ...]  # exact names, ``prefix.*`` or ``*``
    token_sha256: str | None = None
    client_cert: str | None = None
    runtime: str | None = None

    def allows(self, task_name: str) -> bool:
        """Say whether this identity may serve a task."""
        return any(_matches(pattern, task_name) for pattern in self.tasks)


@dataclass(frozen=True, slots=True)
class Caller:
    """Whoever a request comes from. ``identity`` limits it to its own sessions and tokens."""

    is_admin: bool
    identity: Identity | None = None

    def check_path(self, path: str) -> None:
        """Refuse a worker's credential at an endpoint that is not for workers (O035)."""
        if not self.is_admin and not path.startswith(WORKER_PATHS):
            raise forbidden("worker credentials may only call /v1/workers/* and /v1/tasks/*")

    def check_registration(self, worker_id: str, runtime: str, task_names: Iterable[str]) -> None:
        """Refuse a registration that the identity does not cover (O036)."""
        if (own := self.identity) is None:
            return
        if worker_id != own.id:
            raise forbidden(f"this credential belongs to worker `{own.id}`, not `{worker_id}`")
        if own.runtime is not None and runtime.lower() != own.runtime.lower():
            raise forbidden(f"worker `{own.id}` must announce runtime `{own.runtime}`")
        if refused := [name for name in task_names if not own.allows(name)]:
            allowed = ", ".join(own.tasks)
            raise forbidden(f"worker `{own.id}` may not serve: {', '.join(refused)} (allowed: {allowed})")

    def check_session(self, worker_id: str) -> None:
        """Refuse the use of a session that another identity opened."""
        if self.identity and worker_id != self.identity.id:
            raise forbidden(f"session belongs to worker `{worker_id}`, not `{self.identity.id}`")

    def check_token(self, worker_id: str) -> None:
        """Refuse a report for a token that another identity was given."""
        if self.identity and worker_id != self.identity.id:
            raise forbidden(f"task token was issued to worker `{worker_id}`, not `{self.identity.id}`")


ANYONE = Caller(is_admin=True)
_SHARED_WORKER = Caller(is_admin=False)


@dataclass(frozen=True)
class Credentials:
    """What a runtime accepts. With neither an admin token nor identities it is open to all (O030)."""

    token: str | None = field(default=None, repr=False)
    worker_token: str | None = field(default=None, repr=False)
    identities: Sequence[Identity] = ()

    def __post_init__(self) -> None:
        if self.worker_token and self.is_open:
            text = "a worker token protects nothing without an admin token; give --token, or ORBIT_TOKEN, as well"
            raise ConfigurationError(text)

    @property
    def is_open(self) -> bool:
        """Say whether no credential is needed."""
        return not self.token and not self.identities

    def caller(self, authorization: str | None, certificate_names: frozenset[str] | None = None) -> Caller:
        """Return who calls, by bearer token or else by the names in a verified client certificate.

        Raises RuntimeRefusalError: 401 without a valid credential, 403 for a certificate that nobody registered (O040).
        """
        if self.is_open:
            return ANYONE
        if authorization is not None:
            return self._by_token(authorization)
        if certificate_names is None:
            raise _unauthenticated("credentials are required")
        for identity in self.identities:
            if identity.client_cert in certificate_names:
                return Caller(is_admin=False, identity=identity)
        raise forbidden("the client certificate matches no entry of the workers file")

    def _by_token(self, authorization: str) -> Caller:
        match = re.fullmatch(r"(?i:bearer) +(\S+)", authorization.strip())
        token = match[1] if match else ""
        if _same(token, self.token):
            return ANYONE
        if _same(token, self.worker_token):
            return _SHARED_WORKER
        digest = hashlib.sha256(_bytes(token)).hexdigest()
        for identity in self.identities:
            if _same(digest, identity.token_sha256):
                return Caller(is_admin=False, identity=identity)
        raise _unauthenticated("the credential is not valid")


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_digest(value: Any) -> bool:
    return isinstance(value, str) and re.fullmatch(r"[0-9a-fA-F]{64}", value) is not None


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


# key -> what it must hold, in words and as a check
_KEYS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "id": ("a text", _is_text),
    "token_sha256": ("the SHA-256 of a token in hex", _is_digest),
    "client_cert": ("a text", _is_text),
    "tasks": ("a list of texts", _are_texts),
    "runtime": ("a text", _is_text),
}


def read_identities(text: str, file: str = "workers file") -> tuple[Identity, ...]:
    """Return the entries of a workers file (TOML, O037); raises ConfigurationError for what it may not hold."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{file}: {error}") from None
    entries = document.pop("worker", [])
    if document:
        raise ConfigurationError(f"{file}: unknown key `{next(iter(document))}`; only [[worker]] entries are read")
    if not isinstance(entries, list) or not entries:
        raise ConfigurationError(f"{file}: no [[worker]] entry")
    return tuple(_identity(entry, f"{file}: entry {number}") for number, entry in enumerate(entries, 1))


def _identity(entry: Any, where: str) -> Identity:
    if not isinstance(entry, dict):
        raise ConfigurationError(f"{where}: expected a table")
    for key, value in entry.items():
        _check_key(key, value, where)
    if "id" not in entry or "tasks" not in entry:
        raise ConfigurationError(f"{where}: `id` and `tasks` are required")
    if "token_sha256" not in entry and "client_cert" not in entry:
        raise ConfigurationError(f"{where}: `token_sha256` or `client_cert` is required")
    return Identity(
        id=entry["id"],
        tasks=tuple(entry["tasks"]),
        token_sha256=entry["token_sha256"].lower() if "token_sha256" in entry else None,
        client_cert=entry.get("client_cert"),
        runtime=entry.get("runtime"),
    )


def _check_key(key: str, value: Any, where: str) -> None:
    if key not in _KEYS:
        raise ConfigurationError(f"{where}: unknown key `{key}`; known are {', '.join(_KEYS)}")
    wanted, is_right = _KEYS[key]
    if not value or not is_right(value):
        raise ConfigurationError(f"{where}: `{key}` must be {wanted}")


def forbidden(message: str) -> RuntimeRefusalError:
    """Return the refusal of a call that the credential does not cover."""
    return RuntimeRefusalError(403, "FORBIDDEN", message)


def _unauthenticated(message: str) -> RuntimeRefusalError:
    return RuntimeRefusalError(401, "UNAUTHENTICATED", message)


def _matches(pattern: str, task_name: str) -> bool:
    if pattern == "*":
        return True
    return task_name.startswith(pattern[:-1]) if pattern.endswith(".*") else task_name == pattern


def _bytes(header: str) -> bytes:
    """Return a header's bytes as they came; HTTP headers are read as Latin-1."""
    return header.encode("latin-1", "replace")


def _same(given: str, wanted: str | None) -> bool:
    return bool(wanted) and hmac.compare_digest(_bytes(given), str(wanted).encode())

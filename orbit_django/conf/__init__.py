"""The ORBIT settings as one frozen, typed object; the only place that reads the environment.

Each key resolves through command line, ``settings.ORBIT``, environment and default, in this order; None and the
empty text count as unset (O200).
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cached_property
from typing import Any

import environ
from django.conf import settings

from orbit_django.conf.files import mark_of
from orbit_django.conf.readers import READERS
from orbit_django.conf.texts import likely_key
from orbit_django.conf.token_file import TokenFile
from orbit_django.conf.weave import NO_RELEASE, WeaveSettings
from orbit_django.exceptions import ConfigurationError
from orbit_django.redaction import redacted

DEFAULT_SERVER = "http://127.0.0.1:7233"
HELPERS = 8  # connections beyond two for each poll loop: senders, relay, filing, claim keeper, main
FROM_ENVIRONMENT = ("SERVER", "WORKER_TOKEN", "TOKEN", "CA_CERT", "CLIENT_CERT", "CLIENT_KEY", "LOG_LEVEL")


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
    proxy: str | None = field(default=None, repr=False)  # URL of a proxy, perhaps with a password; none by default
    log_level: str = "INFO"
    transport: str = "http"  # "http", "grpc", "weave", or the dotted path of a binding
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
    weave: WeaveSettings = field(default_factory=WeaveSettings)

    @cached_property
    def _token_file(self) -> TokenFile | None:
        return TokenFile(self.worker_token_file) if self.worker_token_file else None

    @property
    def credential(self) -> str | None:
        """The worker's bearer token: WORKER_TOKEN, else WORKER_TOKEN_FILE, else TOKEN; None when there is none.

        With Weave it is the one of WEAVE, and None where that is fetched.
        """
        if self.is_weave:
            return self.weave.credential
        if self.worker_token:
            return self.worker_token
        return self._token_file.read() if self._token_file else self.token

    @property
    def credential_source(self) -> str:
        """The setting that the worker's bearer token comes from; "" when there is none."""
        if self.is_weave:
            return self.weave.credential_source
        sources = {"WORKER_TOKEN": self.worker_token, "WORKER_TOKEN_FILE": self.worker_token_file, "TOKEN": self.token}
        return next((name for name, value in sources.items() if value), "")

    @property
    def identity(self) -> tuple[object, ...]:
        """What a worker shows of itself: compare it, to learn that the credential or the certificate has changed."""
        return self.credential, *(mark_of(path) for path in (self.client_cert, self.client_key) if path)

    @property
    def is_weave(self) -> bool:
        """Whether workers speak to a Weave platform."""
        return self.transport == "weave"

    @property
    def lacking(self) -> list[str]:
        """What a worker needs and nobody has set, one text for each: keys of WEAVE, an admitted release included."""
        if not self.is_weave:
            return []
        return [f"WEAVE: {text}" for text in (*self.weave.lacking(), *([] if self.weave.release_id else [NO_RELEASE]))]

    @property
    def reports_to(self) -> str:
        """The runtime that messages belong to, as it is kept with each of them."""
        return self.weave.address if self.is_weave else self.server

    @property
    def may_start(self) -> bool:
        """Whether starts are sent: with the admin token, or with no credential at all to a runtime that wants none."""
        return self.token is not None or not (self.credential_source or self.is_weave)

    @property
    def most_connections(self) -> int:
        """The most connections that one worker process has to one database alias."""
        return connections_for(self.concurrency)

    def worker_name(self) -> str:
        """Return the identity to register under (O195)."""
        return self.worker_id or f"python-{socket.gethostname()}-{os.getpid()}"

    def redact(self, text: str) -> str:
        """Return the text without any credential that these settings know.

        One that is shorter than eight characters guards nothing and stands in many words, which would suffer.
        """
        held = self._token_file.seen if self._token_file else ()
        return redacted(text, credentials=(self.worker_token, self.token, *held, *self.weave.secrets))


def connections_for(concurrency: int) -> int:
    """Return the most connections that a process with so many poll loops has to one database alias."""
    return 2 * concurrency + HELPERS


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


def keys() -> list[str]:
    """Return every key that ``settings.ORBIT`` may have."""
    return sorted(name.upper() for name in OrbitSettings.__dataclass_fields__)


def unknown_keys() -> list[tuple[str, str]]:
    """Return each key of ``settings.ORBIT`` that does not exist, with the most similar one that does (or "")."""
    known = keys()
    given = _from_project()
    return [(str(key), likely_key(key, known)) for key in given if key not in known]


def misnamed() -> str:
    """Return the name of a setting that looks as if it were meant to be ORBIT, where there is no ORBIT; else ""."""
    if hasattr(settings, "ORBIT"):
        return ""
    known = set(keys())
    likely = [name for name in dir(settings) if name.startswith("ORBIT") or get_close_matches(name, ["ORBIT"])]
    tables = {name: getattr(settings, name) for name in likely}
    return next((name for name, value in tables.items() if isinstance(value, Mapping) and known & set(value)), "")


def _from_project() -> Mapping[str, Any]:
    given = getattr(settings, "ORBIT", None)
    given = {} if given is None else given
    if not isinstance(given, Mapping):
        raise ConfigurationError("ORBIT: the setting is to be a dictionary")
    return given


def from_environment() -> dict[str, Any]:
    """Return what the environment says of the keys that may come from it; None and "" count as unset."""
    read = environ.Env.ENVIRON
    return {name: read.get(f"ORBIT_{name}") for name in FROM_ENVIRONMENT}


def _resolve(options: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    try:
        project = _from_project()
    except ConfigurationError as error:
        return {}, [str(error)]
    surroundings = from_environment()
    found: dict[str, Any] = {}
    wrong: dict[str, str] = {}
    for name in OrbitSettings.__dataclass_fields__:
        sources = (options.get(name), project.get(name.upper()), surroundings.get(name.upper()))
        value = next((value for value in sources if value is not None and value != ""), None)
        if value is None:
            continue
        try:
            found[name] = READERS[name](value)
        except (TypeError, ValueError, OverflowError) as error:
            wrong[name] = f"{name.upper()}: {error}"
    if "client_key" in found and "client_cert" not in found | wrong:
        wrong["client_key"] = "CLIENT_KEY: a key needs CLIENT_CERT, the certificate that it belongs to"
    if found.get("transport") == "weave" and "weave" not in wrong:
        wrong |= {text: f"WEAVE: {text}" for text in found.get("weave", WeaveSettings()).lacking()}
    return found, list(wrong.values())

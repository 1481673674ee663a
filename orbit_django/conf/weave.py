"""The setting WEAVE: where a Weave environment is, who asks, and which release works there."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar
from uuid import UUID

from orbit_django.conf.texts import likely_key, read_secret, read_text, read_url
from orbit_django.conf.token_file import TokenFile

Read = TypeVar("Read")
Readers = dict[str, Callable[[Any], Any]]

PLACE = ("SERVER", "TENANT", "PROJECT", "ENVIRONMENT")
TOKENS = ("TOKEN", "TOKEN_FILE", "OAUTH")
NO_RELEASE = "RELEASE_ID is missing: manage.py orbit_weave admit tells it"
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


@dataclass(frozen=True, kw_only=True)
class OAuthSettings:
    """A client that fetches its tokens itself, by the client credentials grant."""

    token_url: str
    client_id: str
    client_secret: str | None = field(default=None, repr=False)
    client_secret_file: str | None = None  # read again for each token
    scope: str | None = None
    audience: str | None = None


@dataclass(frozen=True, kw_only=True)
class WeaveSettings:
    """One environment of a Weave platform, and a worker's or a deployer's way in."""

    server: str = ""  # URL of the platform
    tenant: str = ""  # UUIDs in their usual spelling
    project: str = ""
    environment: str = ""
    token: str | None = field(default=None, repr=False)
    token_file: str | None = None  # a file that holds it instead, read again when it changes
    oauth: OAuthSettings | None = None
    release_id: str | None = None  # UUID of the release that was admitted; a worker needs it
    image_digest: str | None = None  # sha256:… of the image; an admission needs it

    @cached_property
    def file(self) -> TokenFile | None:
        """The file that holds the token, if one does."""
        return TokenFile(self.token_file, "WEAVE['TOKEN_FILE']") if self.token_file and not self.token else None

    @property
    def address(self) -> str:
        """The URL of the environment: what reports belong to, and what every path is relative to."""
        return f"{self.server}/api/v1/tenants/{self.tenant}/projects/{self.project}/environments/{self.environment}"

    @property
    def credential(self) -> str | None:
        """The token that is given, directly or in a file; None where tokens are fetched."""
        return self.file.read() if self.file else self.token

    @property
    def credential_source(self) -> str:
        """The key that the token comes from; "" when there is none."""
        found = next((name for name in TOKENS if getattr(self, name.lower())), None)
        return f"WEAVE[{found!r}]" if found else ""

    @property
    def secrets(self) -> tuple[str | None, ...]:
        """Everything here that no text may show."""
        seen = self.file.seen if self.file else ()
        return self.token, self.oauth.client_secret if self.oauth else None, *seen

    def lacking(self) -> list[str]:
        """Return one text for each part without which no call can be made."""
        missing = [f"{name} is missing" for name in PLACE if not getattr(self, name.lower())]
        if not (self.token or self.token_file or self.oauth):
            missing.append("a token is missing: set TOKEN, TOKEN_FILE or OAUTH")
        return missing


def read_weave(value: Any) -> WeaveSettings:
    """Read the dictionary; raise ValueError or TypeError naming the key that is wrong or unknown."""
    return WeaveSettings(**_read(value, WEAVE))


def _oauth(value: Any) -> OAuthSettings:
    found = _read(value, OAUTH)
    missing = [name for name in ("token_url", "client_id") if name not in found]
    if not ("client_secret" in found or "client_secret_file" in found):
        missing.append("client_secret (or client_secret_file)")
    if missing:
        raise ValueError(f"{', '.join(missing).upper()} is missing")
    return OAuthSettings(**found)


def _read(value: Any, readers: Readers) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise TypeError("expected a dictionary")
    found: dict[str, Any] = {}
    for key, given in value.items():
        if key not in readers:
            close = likely_key(key, readers)
            raise ValueError(f"the key {key!r} is unknown" + (f"; did you mean {close!r}?" if close else ""))
        if given is None or given == "":
            continue
        try:
            found[key.lower()] = readers[key](given)
        except (TypeError, ValueError) as error:
            raise type(error)(f"{key}: {error}") from None
    return found


def _uuid(value: Any) -> str:
    try:
        return str(UUID(str(value)))
    except ValueError:
        raise ValueError(f"expected a UUID, found {str(value)[:60]!r}") from None


def _digest(value: Any) -> str:
    if not DIGEST.fullmatch(str(value)):
        raise ValueError(f"expected sha256: and 64 small hexadecimal digits, found {str(value)[:80]!r}")
    return str(value)


def _words(value: Any) -> str:
    if not isinstance(value, str) or not value.isprintable():
        raise ValueError("expected a printable text")
    return value


OAUTH: Readers = {
    "TOKEN_URL": read_url,
    "CLIENT_ID": _words,
    "CLIENT_SECRET": read_secret,
    "CLIENT_SECRET_FILE": read_text,
    "SCOPE": _words,
    "AUDIENCE": _words,
}
WEAVE: Readers = {
    "SERVER": read_url,
    "TENANT": _uuid,
    "PROJECT": _uuid,
    "ENVIRONMENT": _uuid,
    "TOKEN": read_secret,
    "TOKEN_FILE": read_text,
    "OAUTH": _oauth,
    "RELEASE_ID": _uuid,
    "IMAGE_DIGEST": _digest,
}

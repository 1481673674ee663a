"""Bearer tokens: given in the settings, kept in a file, or fetched and renewed ahead of their end."""

from __future__ import annotations

import logging
import threading
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlencode

from orbit_django.clock import Clock
from orbit_django.conf.weave import OAuthSettings, WeaveSettings
from orbit_django.exceptions import ConfigurationError, NoAnswerError, RefusedError
from orbit_django.logs import SteadyLogger
from orbit_django.redaction import MET
from orbit_django.transports.answers import Answer, read_json
from orbit_django.transports.connection import HttpConnection, Names

logger = SteadyLogger(logging.getLogger(__name__))

CALL_SECONDS = 10.0
CONNECT_SECONDS = 5.0
USUAL_SECONDS = 300.0  # of a token whose issuer does not say how long it lives
MARGIN_SECONDS = 30.0  # before its end, or a tenth of its life
AGAIN_SECONDS = 5.0  # between two tries while the old token still lives
NAMES = Names("WEAVE['OAUTH']['TOKEN_URL']", "WEAVE['OAUTH']")


class Tokens(Protocol):
    """Where the bearer token of a call comes from; safe from many threads."""

    def current(self) -> str:
        """Return the token to use now; NoAnswerError, RefusedError or ConfigurationError when there is none."""
        ...

    def renew(self, refused: str) -> bool:
        """Note that a token was not accepted; return whether there is another one now."""
        ...


class GivenTokens:
    """A token that somebody else renews, if anybody."""

    def __init__(self, settings: WeaveSettings) -> None:
        self._settings = settings

    def current(self) -> str:
        """Return the token in the settings, or in its file as it is now."""
        token = self._settings.credential
        if token is None:
            raise ConfigurationError("WEAVE: a token is missing: set TOKEN, TOKEN_FILE or OAUTH")
        return token

    def renew(self, refused: str) -> bool:
        """Return whether the file holds another token by now."""
        return self.current() != refused


class FetchedTokens:
    """Tokens of the client credentials grant, fetched by one thread while the others go on with the old one."""

    def __init__(self, settings: OAuthSettings, clock: Clock, **options: Any) -> None:
        self._settings = settings
        self._clock = clock
        self._connection = HttpConnection(settings.token_url, credential=lambda: None, names=NAMES, **options)
        self._lock = threading.Lock()
        self._token = ""
        self._renew_at = self._ends_at = float("-inf")

    def current(self) -> str:
        """Return a token that lives; fetch another one ahead of its end."""
        now = self._clock.monotonic()
        if now >= self._renew_at:
            self._renew(must=now >= self._ends_at)
        MET.note(self._token)
        return self._token

    def renew(self, refused: str) -> bool:
        """Fetch another token, unless another thread did so."""
        with self._lock:
            if self._token == refused:
                self._fetch()
        return self._token != refused

    def _renew(self, *, must: bool) -> None:
        if not self._lock.acquire(blocking=must):
            return  # another thread is at it
        try:
            if self._clock.monotonic() >= (self._ends_at if must else self._renew_at):
                self._fetch()
        except (NoAnswerError, RefusedError) as error:
            if must:
                raise
            self._renew_at = self._clock.monotonic() + AGAIN_SECONDS
            logger.warning("a token could not be renewed yet", extra={"error": str(error)})
        finally:
            self._lock.release()

    def _fetch(self) -> None:
        began = self._clock.monotonic()
        answer = self._connection.call(
            "POST",
            "",
            self._form(),
            connect_seconds=CONNECT_SECONDS,
            total_seconds=CALL_SECONDS,
            content_type="application/x-www-form-urlencoded",
        )
        if not answer.is_success:
            raise _refusal(answer, "CLIENT_SECRET" if self._settings.client_secret else "CLIENT_SECRET_FILE")
        body = answer.value()
        token = body.get("access_token") if isinstance(body, dict) else None
        if not isinstance(token, str) or not token:
            raise NoAnswerError(f"{NAMES.server}: the answer holds no access_token", is_maybe_processed=False)
        seconds = body.get("expires_in")
        life = float(seconds) if isinstance(seconds, int | float) and seconds > 0 else USUAL_SECONDS
        self._token, self._ends_at = token, began + life
        self._renew_at = began + life - min(max(MARGIN_SECONDS, life / 10), life / 3)
        MET.note(token)

    def _form(self) -> str:
        given = self._settings
        secret = given.client_secret or _secret_in(str(given.client_secret_file))
        MET.note(secret)
        fields = {
            "grant_type": "client_credentials",
            "client_id": given.client_id,
            "client_secret": secret,
            "scope": given.scope,
            "audience": given.audience,
        }
        return urlencode({name: value for name, value in fields.items() if value})

    def close(self) -> None:
        """Let go of the connections."""
        self._connection.close()


def _secret_in(path: str) -> str:
    try:
        secret = Path(path).read_text(encoding="utf-8-sig").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no UTF-8 text"
        raise ConfigurationError(f"WEAVE['OAUTH']['CLIENT_SECRET_FILE']: {path} cannot be read: {why}") from None
    if not secret:
        raise ConfigurationError(f"WEAVE['OAUTH']['CLIENT_SECRET_FILE']: {path} is empty")
    return secret


def _refusal(answer: Answer, secret: str) -> NoAnswerError | RefusedError:
    """Return what an answer without a token means; only its error code is told, never its text."""
    try:
        body = read_json(answer.body)
    except (ValueError, RecursionError):
        body = None
    code = body.get("error") if isinstance(body, dict) else ""
    told = f"{NAMES.server} answered {answer.status} {code if isinstance(code, str) else ''}".strip()[:200]
    if answer.status >= 500 or answer.status == 429:
        return NoAnswerError(told, is_maybe_processed=False)
    return RefusedError(answer.status, "", f"{told}; look at CLIENT_ID and {secret}", is_from_runtime=False)

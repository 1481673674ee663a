"""One call of Weave's: a POST with the token of the moment, which is renewed once when it is not accepted."""

from __future__ import annotations

import logging
from typing import Any

from orbit_django.clock import Clock
from orbit_django.conf.weave import WeaveSettings
from orbit_django.exceptions import NoAnswerError, RefusedError, TransportError
from orbit_django.logs import SteadyLogger
from orbit_django.redaction import MET
from orbit_django.transports.answers import Answer
from orbit_django.transports.connection import HttpConnection, Names
from orbit_django.transports.weave.tokens import FetchedTokens, GivenTokens, Tokens
from orbit_django.transports.weave.words import problem

logger = SteadyLogger(logging.getLogger(__name__))

CONNECT_SECONDS = 5.0
CALL_SECONDS = 10.0
NAMES = Names("WEAVE['SERVER']", "the token of WEAVE")
PASSING = (408, 500, 502, 503, 504)  # nothing final: the request was not read, or nobody knows


class WeaveCalls:
    """Calls into one environment; safe from many threads."""

    def __init__(self, settings: WeaveSettings, clock: Clock, **options: Any) -> None:
        self.tokens: Tokens = (
            FetchedTokens(settings.oauth, clock, **options)
            if settings.oauth and not settings.token and not settings.token_file
            else GivenTokens(settings)
        )
        self._connection = HttpConnection(
            settings.address, credential=self.tokens.current, names=NAMES, is_lean=True, **options
        )
        self.address = self._connection.server

    def post(self, path: str, body: str, total_seconds: float = CALL_SECONDS, *, is_start: bool = False) -> Answer:
        """Return whatever the platform answers.

        Raises NoAnswerError when nothing final came. A token that cannot be had is one of these cases, but at the
        start (``is_start``), where a refusal of it is a mistake and a RefusedError.
        """
        try:
            token = self.tokens.current()
            answer = self._once(path, body, total_seconds)
            if answer.status == 401 and self.tokens.renew(token):
                logger.info("a token was not accepted, and renewed")
                answer = self._once(path, body, total_seconds)
        except RefusedError as error:
            if is_start:
                raise
            raise NoAnswerError(str(error), is_maybe_processed=False) from None
        return answer

    def get(self, path: str) -> Answer:
        """Return what the platform answers to a question."""
        return self._connection.call("GET", path, None, connect_seconds=CONNECT_SECONDS, total_seconds=CALL_SECONDS)

    def failure(self, answer: Answer) -> TransportError:
        """Return the error that an answer without success amounts to; no text holds a secret."""
        code, message = problem(answer)
        told = self._connection.redact(message)
        if answer.status in PASSING or answer.status >= 500:
            return NoAnswerError(f"{answer.status} {code or 'without a code of Weave'}: {told}")
        what = "without a code of Weave"
        return RefusedError(answer.status, code, told, is_from_runtime=bool(code), what=what)

    def close(self) -> None:
        """Let go of every connection."""
        self._connection.close()
        if isinstance(self.tokens, FetchedTokens):
            self.tokens.close()

    def _once(self, path: str, body: str, total_seconds: float) -> Answer:
        return self._connection.post(
            path, body, connect_seconds=min(CONNECT_SECONDS, total_seconds), total_seconds=total_seconds
        )


def note(*secrets: str) -> None:
    """Remember secrets that no text may show from now on."""
    for secret in secrets:
        MET.note(secret)

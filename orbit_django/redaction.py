"""Taking secrets out of texts: the one rule for logs, stored errors, reports and pages."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable

MASK = "********"
SHORTEST_SECRET = 8  # what is shorter guards nothing and stands in many words, which would suffer
REMEMBERED_TOKENS = 256


class TokenMemory:
    """The task tokens that this process met last: an error may quote one long after its delivery has ended."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tokens: dict[str, None] = {}  # the oldest first
        self._beginnings: Counter[str] = Counter()

    def note(self, token: str) -> None:
        """Remember a token, as far as it is long enough to be one."""
        if len(token) < SHORTEST_SECRET or token in self._tokens:
            return
        with self._lock:
            self._tokens[token] = None
            self._beginnings[token[:SHORTEST_SECRET]] += 1
            if len(self._tokens) > REMEMBERED_TOKENS:
                self._forget(next(iter(self._tokens)))

    def found_in(self, text: str) -> tuple[str, ...]:
        """Return the tokens that a text may hold; most texts, which hold none, are told by one look."""
        with self._lock:
            length = SHORTEST_SECRET
            pieces = {text[at : at + length] for at in range(len(text) - length + 1)}
            if self._beginnings.keys().isdisjoint(pieces):
                return ()
            return tuple(token for token in self._tokens if token[:length] in pieces)

    def _forget(self, token: str) -> None:
        del self._tokens[token]
        beginning = token[:SHORTEST_SECRET]
        self._beginnings[beginning] -= 1
        if not self._beginnings[beginning]:
            del self._beginnings[beginning]


MET = TokenMemory()


def redacted(text: str, *, credentials: Iterable[str | None] = (), tokens: Iterable[str] = ()) -> str:
    """Return the text without these credentials, as far as they are long enough, and without any task token.

    The tokens are those given and those that this process met lately.
    """
    long_enough = (secret for secret in credentials if secret and len(secret) >= SHORTEST_SECRET)
    for secret in (*long_enough, *filter(None, tokens), *MET.found_in(text)):
        text = text.replace(secret, MASK)
    return text

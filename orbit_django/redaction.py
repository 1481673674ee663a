"""Taking secrets out of texts: the one rule for logs, stored errors, reports and pages."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable

MASK = "********"
SHORTEST_SECRET = 8  # what is shorter guards nothing and stands in many words, which would suffer
REMEMBERED_TOKENS = 256


class TokenMemory:
    """The task tokens that this process met last: an error may quote one long after its delivery has ended."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tokens: deque[str] = deque(maxlen=REMEMBERED_TOKENS)

    def note(self, token: str) -> None:
        """Remember a token, as far as it is long enough to be one."""
        with self._lock:
            if len(token) >= SHORTEST_SECRET and token not in self._tokens:
                self._tokens.append(token)

    def all(self) -> tuple[str, ...]:
        """Return the tokens remembered."""
        with self._lock:
            return tuple(self._tokens)


MET = TokenMemory()


def redacted(text: str, *, credentials: Iterable[str | None] = (), tokens: Iterable[str] = ()) -> str:
    """Return the text without these credentials, as far as they are long enough, and without any task token.

    The tokens are those given and those that this process met lately.
    """
    long_enough = (secret for secret in credentials if secret and len(secret) >= SHORTEST_SECRET)
    for secret in (*long_enough, *filter(None, tokens), *MET.all()):
        text = text.replace(secret, MASK)
    return text

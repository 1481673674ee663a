"""Taking secrets out of texts: the one rule for logs, stored errors, reports and pages."""

from __future__ import annotations

import threading
from collections.abc import Iterable

MASK = "********"
SHORTEST_SECRET = 8  # what is shorter guards nothing and stands in many words, which would suffer
REMEMBERED_TOKENS = 256
LONGEST_STRIDE = 8  # a longer one spares looks at texts, and costs marks of tokens


class TokenMemory:
    """The task tokens that this process met last: an error may quote one long after its delivery has ended.

    They are found by marks: of each token the last few pieces of one length, so many that a text which holds it has
    one of them at a multiple of the stride. Only there a text is looked at.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tokens: dict[str, None] = {}  # the oldest first
        self._marks: dict[str, int] = {}  # each with how many tokens have it
        self._stride = LONGEST_STRIDE

    def note(self, token: str) -> None:
        """Remember a token, as far as it is long enough to be one."""
        if len(token) < SHORTEST_SECRET or token in self._tokens:
            return
        with self._lock:
            if token in self._tokens:
                return
            self._tokens[token] = None
            if (places := len(token) - SHORTEST_SECRET + 1) < self._stride:
                self._stride, self._marks = places, {}
                for each in self._tokens:
                    self._mark(each)
            else:
                self._mark(token)
            if len(self._tokens) > REMEMBERED_TOKENS:
                self._forget(next(iter(self._tokens)))

    def found_in(self, text: str) -> tuple[str, ...]:
        """Return the tokens that a text holds; most texts, which hold none, are told by one look."""
        with self._lock:
            length = SHORTEST_SECRET
            pieces = {text[at : at + length] for at in range(0, len(text) - length + 1, self._stride)}
            if self._marks.keys().isdisjoint(pieces):
                return ()
            return tuple(token for token in self._tokens if token in text)

    def _places(self, token: str) -> range:
        """Return where the pieces of a token begin that are its marks."""
        end = len(token) - SHORTEST_SECRET + 1
        return range(end - self._stride, end)

    def _mark(self, token: str) -> None:
        for at in self._places(token):
            mark = token[at : at + SHORTEST_SECRET]
            self._marks[mark] = self._marks.get(mark, 0) + 1

    def _forget(self, token: str) -> None:
        del self._tokens[token]
        for at in self._places(token):
            mark = token[at : at + SHORTEST_SECRET]
            if self._marks[mark] == 1:
                del self._marks[mark]
            else:
                self._marks[mark] -= 1


MET = TokenMemory()


def redacted(text: str, *, credentials: Iterable[str | None] = (), tokens: Iterable[str] = ()) -> str:
    """Return the text without these credentials, as far as they are long enough, and without any task token.

    The tokens are those given and those that this process met lately.
    """
    if not text:
        return text
    long_enough = (secret for secret in credentials if secret and len(secret) >= SHORTEST_SECRET)
    for secret in (*long_enough, *filter(None, tokens), *MET.found_in(text)):
        text = text.replace(secret, MASK)
    return text

"""Taking secrets out of texts: the one rule for logs, stored errors, reports and pages."""

from __future__ import annotations

from collections.abc import Iterable

MASK = "********"
SHORTEST_CREDENTIAL = 8  # what is shorter guards nothing and stands in many words, which would suffer


def redacted(text: str, *, credentials: Iterable[str | None] = (), tokens: Iterable[str] = ()) -> str:
    """Return the text without these credentials, as far as they are long enough, and without these task tokens."""
    long_enough = (secret for secret in credentials if secret and len(secret) >= SHORTEST_CREDENTIAL)
    for secret in (*long_enough, *filter(None, tokens)):
        text = text.replace(secret, MASK)
    return text

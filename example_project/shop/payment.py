"""A pretend payment provider, with its own books in a file of its own.

It stands for a company elsewhere: what it did is not undone when our transaction rolls back. It counts every call
and takes money once per idempotency key, as real providers do.
"""

import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from django.conf import settings

DECLINED_CARDS = frozenset({"tok_declined", "tok_stolen", "tok_insufficient_funds"})

BOOKS = """
CREATE TABLE IF NOT EXISTS calls (key TEXT NOT NULL, card TEXT NOT NULL, amount_cents INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS charges (key TEXT PRIMARY KEY, amount_cents INTEGER NOT NULL);
"""


class CardDeclined(Exception):
    """The card's bank said no."""


class Provider:
    """The provider as its customers see it: charge a card, give the money back, and look at the books."""

    def __init__(self, books: str | Path) -> None:
        self._books = books

    def charge(self, key: str, card: str, amount_cents: int) -> str:
        """Take the money once per key and return the charge's id; raise CardDeclined when the bank says no."""
        with self._open() as books:
            books.execute("INSERT INTO calls VALUES (?, ?, ?)", (key, card, amount_cents))
            if card in DECLINED_CARDS:
                raise CardDeclined(f"the bank declined {card}")
            books.execute("INSERT OR IGNORE INTO charges VALUES (?, ?)", (key, amount_cents))
            (number,) = books.execute("SELECT rowid FROM charges WHERE key = ?", (key,)).fetchone()
        return f"ch_{number:06}"

    def refund(self, key: str) -> None:
        """Give the money of a key back; once it is back, asking again does nothing."""
        with self._open() as books:
            books.execute("DELETE FROM charges WHERE key = ?", (key,))

    def calls_per_key(self) -> Counter[str]:
        """Return how often each key was asked for, declined calls included."""
        with self._open() as books:
            return Counter(key for (key,) in books.execute("SELECT key FROM calls"))

    def charged_cents(self) -> dict[str, int]:
        """Return the money taken, per key."""
        with self._open() as books:
            return dict(books.execute("SELECT key, amount_cents FROM charges"))

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(self._books, timeout=20, isolation_level=None)) as books:
            books.executescript(BOOKS)
            yield books


def provider() -> Provider:
    """Return the provider that the settings name."""
    return Provider(settings.SHOP_PROVIDER_FILE)

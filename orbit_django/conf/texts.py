"""Texts among the settings: names, addresses, tokens. No error repeats what may be a credential."""

from __future__ import annotations

import difflib
from collections.abc import Collection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

MAX_NAME = 255  # what the tables keep of a server's URL and of a worker's id


def is_header_text(text: str) -> bool:
    """Return whether a text can be sent as a bearer token."""
    return text.isascii() and text.isprintable() and text == text.strip()


def likely_key(given: object, known: Collection[str]) -> str:
    """Return the key that was probably meant: a similar one, or one that is longer by a word; else ""."""
    name = str(given).upper()
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.75)
    words = set(name.split("_"))
    longer = [key for key in sorted(known) if words < set(key.split("_"))]
    return next(iter([*close, *longer]), "")


def read_text(value: Any) -> str:
    """Read a text, or the name of a file."""
    if not isinstance(value, str | Path):
        raise TypeError(f"expected a text, found {type(value).__name__}")
    return str(value)


def read_secret(value: Any) -> str:
    """Read a token; it is not repeated."""
    text = read_text(value)
    if not is_header_text(text):
        raise ValueError("the token holds blanks at its ends, or characters that no header can carry")
    return text


def read_url(value: Any) -> str:
    """Read the runtime's URL; a text that may hold a credential is not repeated."""
    text = read_name(value).rstrip("/")
    if "@" in text:
        raise ValueError("the URL must not carry a user or a password; use WORKER_TOKEN")
    if "?" in text or "#" in text:
        raise ValueError("the URL has a query or a fragment; expected http://host:port")
    if not is_http(text):
        raise ValueError(f"{text!r} is no URL of the form http://host:port or https://host:port")
    parts = urlsplit(text)
    return parts._replace(netloc=parts.netloc.lower()).geturl()  # one spelling: messages belong to a server by it


def read_name(value: Any) -> str:
    """Read a text that is shown and kept: printable, of a bounded length."""
    text = read_text(value)
    if not text.isprintable() or text != text.strip():
        raise ValueError("has blanks at its ends, or characters that cannot be shown")
    if len(text) > MAX_NAME:
        raise ValueError(f"has {len(text)} characters, at most {MAX_NAME} can be kept")
    return text


def is_http(text: str) -> bool:
    """Return whether a text is an address of http or https."""
    try:
        parts = urlsplit(text)
        is_whole = bool(parts.hostname) and parts.port != 0 and not set(' \\"<>') & set(text)
    except ValueError:  # a port that is no number, half an IPv6 address
        return False
    return is_whole and parts.scheme in ("http", "https")

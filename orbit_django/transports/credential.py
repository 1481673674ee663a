"""Secrets of a call: the bearer token as every binding sends it (O030, O163), and the task token of a report."""

from __future__ import annotations

import json
from collections.abc import Callable

from orbit_django.exceptions import ConfigurationError

Credential = Callable[[], str | None]


def bearer(token: str | None, names: str = "WORKER_TOKEN, WORKER_TOKEN_FILE and TOKEN") -> str:
    """Return the header's value for a token, an empty text for none; ``names`` are the settings to look at."""
    if token is None:
        return ""
    if not token.isascii() or not token.isprintable() or token != token.strip():
        raise ConfigurationError(f"the credential holds a character that no header can carry; look at {names}")
    return f"Bearer {token}"


def token_of(report: str) -> str:
    """Return the task token of a report, which an error text must not show."""
    try:
        token = json.loads(report)["token"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return ""
    return token if isinstance(token, str) else ""

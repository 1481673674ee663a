"""Database connections of a worker's threads, kept as Django keeps them between requests."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Iterator
from typing import Any

from django.db import DatabaseError, InterfaceError, connections
from django.db.backends.base.base import BaseDatabaseWrapper

from orbit_django.dialects import has_begun, is_in_block, is_tests

REST_SECONDS = 5.0  # a connection that was well so lately is not asked again whether it is (CONN_HEALTH_CHECKS)


def before_task() -> None:
    """Drop connections that are broken or too old; never inside somebody's transaction."""
    _tidy(connections.all(initialized_only=True))


def _tidy(opened: Iterable[BaseDatabaseWrapper]) -> None:
    for connection in opened:
        if connection.in_atomic_block:
            continue
        connection.queries_log.clear()
        if connection.connection is not None:
            had_errors = connection.errors_occurred
            connection.close_if_unusable_or_obsolete()
            _spare_checks(connection, had_errors=had_errors)


def _spare_checks(connection: BaseDatabaseWrapper, *, had_errors: bool) -> None:
    """Have a connection checked after a rest, not for each task; one that breaks between is retried like any other."""
    now = time.monotonic()
    rested = now - getattr(connection, "orbit_seen_at", 0.0)
    connection.orbit_seen_at = now  # type: ignore[attr-defined]  # ours alone
    if rested < REST_SECONDS and not had_errors:
        connection.health_check_done = True  # type: ignore[attr-defined]  # not in its stubs


def after_task(*, may_ask: bool = False) -> list[str]:
    """Leave nothing of a task behind; return the aliases on which it had left a transaction open.

    ``may_ask`` lets a server be asked that alone knows of a transaction which was opened past Django.
    """
    opened = connections.all(initialized_only=True)
    left = [connection.alias for connection in opened if has_transaction(connection, may_ask=may_ask)]
    for alias in left:
        end_left(alias)
    _tidy(connections.all(initialized_only=True) if left else opened)
    return left


def end_left(alias: str) -> None:
    """End a transaction that nobody will; the one around a whole TestCase stays, and so does its connection."""
    if kept := sum(map(is_tests, connections[alias].atomic_blocks)):
        unwind(alias, kept)
    else:
        discard(alias)


def rest(alias: str) -> None:
    """Close this thread's connection unless somebody's transaction is open on it; the next use opens a new one."""
    if not connections[alias].in_atomic_block:
        connections[alias].close()


def discard(alias: str) -> None:
    """Close this thread's connection whatever state it is in; the next use opens a new one."""
    connection = connections[alias]
    del connections[alias]
    raw, connection.connection = connection.connection, None
    if raw is not None:
        with contextlib.suppress(Exception):  # a driver says in its own words that it was closed already
            raw.close()


def unwind(alias: str, count: int) -> None:
    """Roll back the innermost open blocks until there are so many, where the connection itself must not be lost."""
    connection = connections[alias]
    while len(connection.atomic_blocks) > count:
        connection.atomic_blocks[-1].__exit__(RuntimeError, None, None)


@contextlib.contextmanager
def wrapped_as_before() -> Iterator[None]:
    """Have statements wrapped afterwards as before, whatever is added meanwhile to this thread's connections.

    A connection that did not exist before keeps what it has: receivers of ``connection_created`` may have put it there.
    """
    before = [(each, [*each.execute_wrappers]) for each in connections.all(initialized_only=True)]
    try:
        yield
    finally:
        for connection, wrappers in before:
            connection.execute_wrappers = wrappers


def has_transaction(connection: Any, *, may_ask: bool = False) -> bool:
    """Return whether a transaction is open that nobody will end; one around a whole TestCase is the test's."""
    if getattr(connection, "connection", None) is None:
        return False
    if connection.in_atomic_block:
        return is_in_block(connection)
    if not connection.settings_dict.get("AUTOCOMMIT", True):
        return False
    try:
        return has_begun(connection, may_ask=may_ask)
    except (DatabaseError, InterfaceError):  # on a connection that is lost nothing is open
        discard(connection.alias)
        return False

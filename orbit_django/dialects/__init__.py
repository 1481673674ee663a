"""What the databases do differently: one contract, one module for each; no other room names a database."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created

from orbit_django.dialects.base import Dialect
from orbit_django.dialects.mysql import MysqlDialect
from orbit_django.dialects.postgresql import PostgresqlDialect
from orbit_django.dialects.sqlite import SqliteDialect, is_queued
from orbit_django.exceptions import ConfigurationError

__all__ = [
    "DIALECTS",
    "Dialect",
    "dialect_of",
    "has_begun",
    "is_in_block",
    "is_queued",
    "is_tests",
    "of_connection",
    "preparing",
]

DIALECTS: dict[str, type[Dialect]] = {
    "postgresql": PostgresqlDialect,
    "mysql": MysqlDialect,
    "sqlite": SqliteDialect,
}


def dialect_of(using: str) -> Dialect:
    """Return the dialect of a database alias, bound to this thread's connection."""
    return of_connection(connections[using])


def of_connection(connection: BaseDatabaseWrapper) -> Dialect:
    """Return the dialect of a connection; raise ConfigurationError for a database that has none."""
    try:
        return DIALECTS[connection.vendor](connection)
    except KeyError:
        raise ConfigurationError(
            f"database alias {connection.alias!r}: {connection.vendor} is not supported; "
            f"expected one of {', '.join(sorted(DIALECTS))}"
        ) from None


def is_tests(block: object) -> bool:
    """Return whether an atomic block is the one around a whole TestCase."""
    return bool(getattr(block, "_from_testcase", False))


def is_in_block(connection: BaseDatabaseWrapper) -> bool:
    """Return whether an atomic block is open on a connection, not counting those around a whole TestCase."""
    return not all(map(is_tests, connection.atomic_blocks))


def has_begun(connection: BaseDatabaseWrapper, *, may_ask: bool = False) -> bool:
    """Return whether a transaction is open, or the next statement opens one, outside of Django's atomic blocks.

    ``may_ask`` lets a server be asked that alone knows of a BEGIN which went past Django.
    """
    if not connection.get_autocommit():
        return True
    dialect = DIALECTS.get(connection.vendor)
    return dialect is not None and dialect(connection).is_in_transaction(may_ask=may_ask)


@contextmanager
def preparing(aliases: Collection[str]) -> Iterator[None]:
    """Set up each connection to one of these databases that the process opens meanwhile."""

    def prepare(connection: BaseDatabaseWrapper, **kwargs: object) -> None:
        if connection.alias in aliases:
            of_connection(connection).prepare()

    connection_created.connect(prepare, weak=False)
    try:
        yield
    finally:
        connection_created.disconnect(prepare)

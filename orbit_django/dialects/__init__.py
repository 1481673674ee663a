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

__all__ = ["DIALECTS", "Dialect", "dialect_of", "is_queued", "of_connection", "preparing"]

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

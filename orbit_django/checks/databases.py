"""Checks of the databases that tasks keep their records in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from django.core import checks
from django.db import DatabaseError, InterfaceError, connections

from orbit_django import conf, placement
from orbit_django.checks.levels import level_of_mistakes
from orbit_django.checks.migrations import migrations_fault
from orbit_django.dialects import dialect_of
from orbit_django.exceptions import ConfigurationError
from orbit_django.payloads import counted
from orbit_django.tasks import registry


def check_routers(databases: Sequence[str] | None = None, **kwargs: Any) -> list[checks.CheckMessage]:
    """E007: routers keep our tables out of a ledger's database; W007: models lie elsewhere than their handlers' ledger.

    To ``migrate`` both are warnings.
    """
    level = level_of_mistakes(databases)
    try:
        settings = conf.load()
    except ConfigurationError:
        return []  # told by E001
    found = [
        checks.CheckMessage(level, text, hint=f"{advice}. A worker will not start.", id="orbit_django.E007")
        for alias in _ledgers(settings)
        for text, advice in _router_faults(alias)
    ]
    return found + [_apart(each) for each in placement.apart(registry, settings.database)]


def check_pools(**kwargs: Any) -> list[checks.CheckMessage]:
    """W008: a pool of connections is too small for the threads of a worker, which would wait for each other."""
    try:
        settings = conf.load()
        sizes = {alias: dialect_of(alias).pool_size() for alias in _ledgers(settings)}
    except ConfigurationError:
        return []  # told by E001, or by a worker that does not start
    wanted = settings.most_connections
    return [
        checks.Warning(
            f"The pool of the database {alias!r} holds {counted(size, 'connection')}, and a worker with CONCURRENCY"
            f" {settings.concurrency} takes up to {wanted}: its threads would wait for each other.",
            hint=f'Say "pool": {{"max_size": {wanted}}} in its OPTIONS, or leave the pool out where workers run.',
            id="orbit_django.W008",
        )
        for alias, size in sizes.items()
        if size is not None and size < wanted
    ]


def check_tables(databases: Sequence[str] | None = None, **kwargs: Any) -> list[checks.CheckMessage]:
    """W002: tables of this app have a form in which they cannot keep what they are given; asked of ``--database``s."""
    return [
        checks.Warning(
            f"database {alias!r}: {text}.", hint=f"{advice}. A worker will not start.", id="orbit_django.W002"
        )
        for alias in databases or ()
        for text, advice in _table_faults(alias)
    ]


def database_faults(alias: str) -> Iterator[str]:
    """Yield why no worker can keep records in a database; into one that cannot be reached nobody looks."""
    if not connections[alias].settings_dict.get("AUTOCOMMIT", True):
        yield f"DATABASES[{alias!r}] has AUTOCOMMIT off: transactions could not be told to end"
    for text, advice in _router_faults(alias):
        yield f"{text}; {advice[0].lower()}{advice[1:]}"
    if dialect_of(alias).is_in_memory():
        yield (
            f"DATABASES[{alias!r}] is an SQLite database in memory: each thread of a worker would see its own; "
            "give it a file"
        )
    try:
        lack, faults = migrations_fault(alias), list(dialect_of(alias).table_faults())
    except (DatabaseError, InterfaceError):
        return
    finally:
        connections[alias].close()
    if lack:
        yield lack
    for text, advice in faults:
        yield f"database {alias!r}: {text}; {advice}"


def _ledgers(settings: conf.OrbitSettings) -> list[str]:
    """Return the aliases in which tasks keep their records."""
    return sorted({settings.database, *(task.using for task in registry if task.using)} & set(connections))


def _apart(found: placement.Apart) -> checks.CheckMessage:
    return checks.Warning(
        f"Handlers of the app {found.app!r} keep their records in the database {found.ledger!r}, but {found.names} of"
        f" that app is written to {found.written!r}: these do not commit together, so such a row can be there twice,"
        " or be there without its record.",
        hint=(
            f"Say using={found.written!r} in @task, or route the models to {found.ledger!r}; silence W007 when no"
            " handler writes them."
        ),
        id="orbit_django.W007",
    )


def _router_faults(alias: str) -> list[tuple[str, str]]:
    """Return what keeps our tables out of a database, with what to do about it."""
    if not (tables := placement.kept_out(alias)):
        return []
    text = f"DATABASE_ROUTERS keep {', '.join(tables)} out of the database {alias!r}, where tasks keep their records"
    return [(text, f"Let allow_migrate answer True for orbit_django in {alias!r}, or name another one in DATABASE")]


def _table_faults(alias: str) -> list[tuple[str, str]]:
    try:
        return list(dialect_of(alias).table_faults())
    except (ConfigurationError, DatabaseError, InterfaceError):
        return []

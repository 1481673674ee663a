"""System checks ``orbit_django.E001`` and following, and the stricter ones that a worker makes before it starts."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Any

from django.core import checks
from django.db import DatabaseError, InterfaceError, connections
from django.db.migrations.executor import MigrationExecutor

from orbit_django import conf, contracts, placement, shapes
from orbit_django.agreement import Difference, compare
from orbit_django.dialects import dialect_of
from orbit_django.exceptions import ConfigurationError
from orbit_django.tasks import Registry, Task, registry
from orbit_django.transports.base import find_binding

TAG = "orbit_django"
_HOW_TO_BEGIN = "write <app>/tasks_orbit.py with a @task handler and list the app in INSTALLED_APPS"


def register() -> None:
    """Make the checks known to Django."""
    for check in (check_settings, check_keys, check_handlers, check_contracts, check_routers, check_pools):
        checks.register(check, TAG)
    checks.register(check_starts, TAG, deploy=True)
    checks.register(check_tables, checks.Tags.database)


def check_settings(**kwargs: Any) -> list[checks.CheckMessage]:
    """E001: a setting has a value that cannot be used, or a worker lacks one, which is an error to ``check`` alone."""
    hint = "Change it in settings.ORBIT or in the environment."
    faults = [(text, checks.ERROR) for text in conf.faults() or _transport_faults()]
    level = checks.ERROR if sys.argv[1:2] == ["check"] else checks.WARNING  # others may come before an admission
    told = faults or [(text, level) for text in conf.load().lacking]
    return [checks.CheckMessage(level, text, hint=hint, id="orbit_django.E001") for text, level in told]


def check_keys(**kwargs: Any) -> list[checks.CheckMessage]:
    """E002: settings.ORBIT has a key that does not exist."""
    try:
        unknown = conf.unknown_keys()
    except ConfigurationError:
        return []  # told by E001
    return [
        checks.Error(
            f"settings.ORBIT has the unknown key {key!r}.",
            hint=f"Did you mean {close!r}?" if close else "docs/reference/settings.md lists every key.",
            id="orbit_django.E002",
        )
        for key, close in unknown
    ]


def check_handlers(databases: Sequence[str] | None = None, **kwargs: Any) -> list[checks.CheckMessage]:
    """E003: a handler cannot be served; E004: a handler names a database alias that does not exist.

    Only a worker is stopped by them; to ``migrate`` they are warnings.
    """
    level = _level(databases)
    hint = "A worker will not start."
    told = [(text, "E003") for text in (*registry.faults, *_type_faults(registry))]
    told += [(text, "E004") for text in _alias_faults(registry)]
    return [checks.CheckMessage(level, text, hint=hint, id=f"orbit_django.{code}") for text, code in told]


def check_contracts(databases: Sequence[str] | None = None, **kwargs: Any) -> list[checks.CheckMessage]:
    """Compare handlers with CONTRACTS.

    E005: a file cannot be read; E006: no run of a handler could succeed; W003: a handler has no contract; W004: the
    versions differ; W005: a contract has no handler; W006: a field looks different. To ``migrate`` all are warnings.
    """
    level = _level(databases)
    try:
        settings = conf.load()
    except ConfigurationError:
        return []  # told by E001
    try:
        found = differences(settings, registry)
    except ConfigurationError as error:
        hint = (
            "Correct the file, or the setting CONTRACTS that names it. `docs/reference/contracts.md` is the language."
        )
        return [checks.CheckMessage(level, str(error), hint=hint, id="orbit_django.E005")]
    return [
        checks.CheckMessage(
            level if each.is_wrong else checks.WARNING, each.text, hint=each.advice, id=f"orbit_django.{each.code}"
        )
        for each in found
    ]


def check_routers(databases: Sequence[str] | None = None, **kwargs: Any) -> list[checks.CheckMessage]:
    """E007: routers keep our tables out of a ledger's database; W007: models lie elsewhere than their handlers' ledger.

    To ``migrate`` both are warnings.
    """
    level = _level(databases)
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


def _level(databases: Sequence[str] | None) -> int:
    """Return how grave a mistake is that keeps a worker from its work: not for ``migrate``, which errors would stop.

    A check that is given databases may be that of ``migrate``, and since Django 6.1 may be any: the command line tells.
    """
    is_migrate = databases is not None and sys.argv[1:2] == ["migrate"]
    return checks.WARNING if is_migrate else checks.ERROR


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
            f"The pool of the database {alias!r} holds {size} connection(s), and a worker with CONCURRENCY"
            f" {settings.concurrency} takes up to {wanted}: its threads would wait for each other.",
            hint=f'Say "pool": {{"max_size": {wanted}}} in its OPTIONS, or leave the pool out where workers run.',
            id="orbit_django.W008",
        )
        for alias, size in sizes.items()
        if size is not None and size < wanted
    ]


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


def differences(settings: conf.OrbitSettings, tasks: Iterable[Task]) -> list[Difference]:
    """Return in what handlers and the files of CONTRACTS differ; raise ConfigurationError for a file that is wrong."""
    return compare(tasks, contracts.load(settings.contracts), settings.runtime)


def check_starts(**kwargs: Any) -> list[checks.CheckMessage]:
    """W001: CONTRACTS declares workflows, and a process with these settings could start none.

    Only with ``check --deploy``: a project that never uses ``start_on_commit``, or whose workers alone have the admin
    token, is not to be warned whenever it is run. A worker without TOKEN warns by itself of the starts that wait.
    """
    try:
        settings = conf.load()
        if settings.token is not None or not contracts.load(settings.contracts).workflows:
            return []
    except ConfigurationError:
        return []  # E001 tells of a setting, whoever runs the contracts of a file
    hint = "Set TOKEN where workers run, or silence this where no code calls start_on_commit."
    return [
        checks.Warning(
            "CONTRACTS declares workflows, but TOKEN is not set: what start_on_commit asks for would wait for ever.",
            hint=hint,
            id="orbit_django.W001",
        )
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


def _table_faults(alias: str) -> list[tuple[str, str]]:
    try:
        return list(dialect_of(alias).table_faults())
    except (ConfigurationError, DatabaseError, InterfaceError):
        return []


def preflight(found: Registry, tasks: Sequence[Task], aliases: Iterable[str]) -> None:
    """Raise ConfigurationError for the first mistake for which a worker must not start.

    A database that cannot be reached is no mistake: then its part of the checks is left out.
    """
    _raise_first(found.faults)
    unknown = conf.unknown_keys()
    _raise_first(f"ORBIT: the key {key!r} is unknown" + (f"; did you mean {c!r}?" if c else "") for key, c in unknown)
    _raise_first(_type_faults(tasks))
    _raise_first(_alias_faults(tasks))
    if not tasks:
        raise ConfigurationError(
            "no tasks to serve: no tasks_orbit module of an installed app has a @task handler"
            + (" that is left after --task and --exclude" if len(found) else f"; {_HOW_TO_BEGIN}")
        )
    for alias in aliases:
        _check_database(alias)


def handler_faults(tasks: Iterable[Task]) -> list[str]:
    """Return one text for each handler that cannot be served, those that were not even registered included."""
    tasks = tuple(tasks)
    return [*registry.faults, *_type_faults(tasks), *_alias_faults(tasks)]


def _transport_faults() -> list[str]:
    try:
        if "." in (path := conf.load().transport):
            find_binding(path)
    except ConfigurationError as error:
        return [str(error)]
    return []


def _type_faults(tasks: Iterable[Task]) -> list[str]:
    """Look into the types only now: while modules are imported, some names in them may not exist yet."""
    kinds = ((task, kind) for task in tasks for kind in (task.input_type, task.output_type) if kind is not None)
    return [f"{task.place}: {text}" for task, kind in kinds if (text := shapes.unreadable(kind))]


def _alias_faults(tasks: Iterable[Task]) -> list[str]:
    return [
        f"{task.place}: using={task.using!r} is no database alias in DATABASES"
        for task in tasks
        if task.using and task.using not in connections
    ]


def _check_database(alias: str) -> None:
    if not connections[alias].settings_dict.get("AUTOCOMMIT", True):
        raise ConfigurationError(f"DATABASES[{alias!r}] has AUTOCOMMIT off: transactions could not be told to end")
    _raise_first(f"{text}; {advice[0].lower()}{advice[1:]}" for text, advice in _router_faults(alias))
    if dialect_of(alias).is_in_memory():
        raise ConfigurationError(
            f"DATABASES[{alias!r}] is an SQLite database in memory: each thread of a worker would see its own; "
            "give it a file"
        )
    try:
        lack = migrations_fault(alias)
        faults = list(dialect_of(alias).table_faults())
    except (DatabaseError, InterfaceError):
        return
    finally:
        connections[alias].close()
    if lack:
        raise ConfigurationError(lack)
    _raise_first(f"database {alias!r}: {text}; {advice}" for text, advice in faults)


def migrations_fault(alias: str) -> str:
    """Return what to say when a database lacks migrations of this app, or ""."""
    missing = missing_migrations(alias)
    if not missing:
        return ""
    option = f" --database {alias}" if alias != "default" else ""
    return f"database {alias!r} lacks {missing} migration(s) of orbit_django: run manage.py migrate{option}"


def missing_migrations(alias: str) -> int:
    """Return how many migrations of this app a database lacks."""
    executor = MigrationExecutor(connections[alias])
    wanted = [node for node in executor.loader.graph.leaf_nodes() if node[0] == TAG]
    return len(executor.migration_plan(wanted))


def _raise_first(texts: Iterable[str]) -> None:
    for text in texts:
        raise ConfigurationError(text)

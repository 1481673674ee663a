"""What databases lack of the migrations of this app and of the project's, and what the migrations lack of the models.

Nothing here changes a database, and nothing of the project's own keeps a worker from starting: a deployment may know.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from django.apps import apps
from django.db import connections, router
from django.db.migrations.autodetector import MigrationAutodetector
from django.db.migrations.exceptions import BadMigrationError, CircularDependencyError, NodeNotFoundError
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.state import ProjectState

from orbit_django.exceptions import MigrationsError
from orbit_django.payloads import counted

OWN = "orbit_django"
_BROKEN = (ValueError, NodeNotFoundError, BadMigrationError, CircularDependencyError)  # how Django's loader says so


def missing_migrations(alias: str) -> int:
    """Return how many migrations of this app a database lacks; raise MigrationsError when none can be looked at."""
    return _unapplied(alias)[OWN]


def migrations_fault(alias: str) -> str:
    """Return what to say when a database lacks migrations of this app, or none can be looked at; else ""."""
    try:
        missing = missing_migrations(alias)
    except MigrationsError as error:
        return str(error)
    return f"database {alias!r} lacks {_named(missing, OWN)}: {how_to_migrate(alias)}" if missing else ""


def how_to_migrate(alias: str) -> str:
    """Return what to do about a database that lacks migrations."""
    return f"run manage.py migrate{f' --database {alias}' if alias != 'default' else ''}"


def project_lacks(alias: str) -> str:
    """Return which migrations of other apps a database lacks, such as "2 migrations of shop", or "".

    An app whose models routers keep out of the database lacks nothing there. Raises MigrationsError.
    """
    missing = sorted((app, count) for app, count in _unapplied(alias).items() if app != OWN and _may_be_in(app, alias))
    return ", ".join(_named(count, app) for app, count in missing)


def unmigrated_changes() -> Iterator[tuple[str, str]]:
    """Yield what no migration says yet though models do, and what to do about it; asks no database."""
    try:
        loader = MigrationLoader(None)
    except _BROKEN:
        return  # told of each database
    if split := sorted(loader.detect_conflicts()):
        yield f"the migrations of {', '.join(split)} have two ends", "run manage.py makemigrations --merge"
        return
    changes = MigrationAutodetector(loader.project_state(), ProjectState.from_apps(apps)).changes(graph=loader.graph)
    if changed := sorted(changes):
        advice = f"run manage.py makemigrations {' '.join(changed)}"
        yield f"models of {', '.join(changed)} have changed since their last migration", advice


def _unapplied(alias: str) -> Counter[str]:
    try:
        executor = MigrationExecutor(connections[alias])
    except _BROKEN as error:
        raise _broken(error) from None
    return Counter(migration.app_label for migration, _ in executor.migration_plan(executor.loader.graph.leaf_nodes()))


def _broken(error: Exception) -> MigrationsError:
    loader = MigrationLoader(None, load=False)
    loader.load_disk()
    bare = sorted(loader.migrated_apps - {app for app, _ in loader.disk_migrations})
    if app := next((app for app in bare if str(error).endswith(f" {app}")), ""):
        text = f"the app {app!r} has no migration yet, and other migrations need one"
        return MigrationsError(text, f"run manage.py makemigrations {app}")
    return MigrationsError(
        f"the migrations of this project do not fit together: {error}", "mend them; migrate says more"
    )


def _may_be_in(app: str, alias: str) -> bool:
    models = list(apps.get_app_config(app).get_models())
    return not models or any(router.allow_migrate_model(alias, model) for model in models)


def _named(count: int, app: str) -> str:
    return f"{counted(count, 'migration')} of {app}"

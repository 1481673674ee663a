"""Which database a table belongs to, by the project's routers: what commits together lies in one database only.

It asks no database, and decides nothing: the checks and the doctor tell what it finds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from django.apps import apps
from django.db import connections, router
from django.db.models import Model

from orbit_django.tasks import Task

OURS = "orbit_django"
MOST_NAMED = 5


class Apart(NamedTuple):
    """Models of an app whose handlers keep their records in another database."""

    app: str
    ledger: str  # the alias of the records
    written: str  # the alias that the models are written to
    models: tuple[str, ...]

    @property
    def names(self) -> str:
        """The models, the first few by their names."""
        more = len(self.models) - MOST_NAMED
        return ", ".join(self.models[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def kept_out(alias: str) -> list[str]:
    """Return the tables of this app that a router keeps out of a database."""
    return [
        model._meta.db_table
        for model in apps.get_app_config(OURS).get_models()
        if not router.allow_migrate_model(alias, model)
    ]


def apart(tasks: Iterable[Task], default: str) -> Iterator[Apart]:
    """Yield, for each app with handlers, the models that would not commit together with the records of its tasks.

    ``default`` is the alias of tasks that name none. Which models a handler writes nobody can tell beforehand: those
    of its own app are the likely ones.
    """
    places = {(app, task.using or default) for task in tasks if (app := _app_of(task)) is not None}
    for app, ledger in sorted(places):
        found: dict[str, list[str]] = {}
        for model in apps.get_app_config(app).get_models():
            written = _written_to(model)
            if written not in (None, ledger) and ledger in connections:
                found.setdefault(str(written), []).append(model.__name__)
        for written, names in found.items():
            yield Apart(app, ledger, written, tuple(names))


def _app_of(task: Task) -> str | None:
    found = apps.get_containing_app_config(task.function.__module__)
    return found.label if found else None


def _written_to(model: type[Model]) -> str | None:
    """Return the alias that a model is written to; None where that depends on what only a request or a task knows."""
    if not model._meta.managed:
        return None
    try:
        return str(router.db_for_write(model))
    except Exception:  # noqa: BLE001  (a router is the project's own code, and a warning must not stop a command)
        return None

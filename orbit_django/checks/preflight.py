"""What a worker looks at before it starts, more strictly than ``manage.py check``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from orbit_django import conf
from orbit_django.checks.databases import database_faults
from orbit_django.checks.project import alias_faults, type_faults
from orbit_django.exceptions import ConfigurationError
from orbit_django.tasks import Registry, Task

_HOW_TO_BEGIN = "write <app>/tasks_orbit.py with a @task handler and list the app in INSTALLED_APPS"


def preflight(found: Registry, tasks: Sequence[Task], aliases: Iterable[str]) -> None:
    """Raise ConfigurationError for the first mistake for which a worker must not start.

    A database that cannot be reached is no mistake: then its part of the checks is left out.
    """
    _raise_first(found.faults)
    unknown = conf.unknown_keys()
    _raise_first(f"ORBIT: the key {key!r} is unknown" + (f"; did you mean {c!r}?" if c else "") for key, c in unknown)
    _raise_first(type_faults(tasks))
    _raise_first(alias_faults(tasks))
    if not tasks:
        raise ConfigurationError(
            "no tasks to serve: no tasks_orbit module of an installed app has a @task handler"
            + (" that is left after --task and --exclude" if len(found) else f"; {_HOW_TO_BEGIN}")
        )
    for alias in aliases:
        _raise_first(database_faults(alias))


def _raise_first(texts: Iterable[str]) -> None:
    for text in texts:
        raise ConfigurationError(text)

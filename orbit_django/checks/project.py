"""Checks of settings, handlers and contracts."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Any

from django.core import checks
from django.db import connections

from orbit_django import conf, contracts, shapes
from orbit_django.agreement import NO_HANDLER, Difference, compare
from orbit_django.checks.levels import level_of_mistakes
from orbit_django.exceptions import ConfigurationError
from orbit_django.tasks import Task, registry
from orbit_django.transports.base import find_binding


def check_settings(**kwargs: Any) -> list[checks.CheckMessage]:
    """E001: a setting has a value that cannot be used, or a worker lacks one, which is an error to ``check`` alone."""
    hint = "Change it in settings.ORBIT or in the environment."
    faults = [(text, checks.ERROR) for text in conf.faults() or _transport_faults()]
    level = checks.ERROR if sys.argv[1:2] == ["check"] else checks.WARNING  # others may come before an admission
    told = faults or [(text, level) for text in conf.load().lacking]
    return [checks.CheckMessage(level, text, hint=hint, id="orbit_django.E001") for text, level in told]


def check_name(**kwargs: Any) -> list[checks.CheckMessage]:
    """W009: there is no setting ORBIT, but one that is named like it."""
    if not (name := conf.misnamed()):
        return []
    text = f"settings.{name} is not read, and there is no settings.ORBIT: every setting has its default."
    return [checks.Warning(text, hint="Call it ORBIT.", id="orbit_django.W009")]


def check_credential(**kwargs: Any) -> list[checks.CheckMessage]:
    """W010: the file of the worker's token cannot be read; by ``check`` alone, since others need no token."""
    if sys.argv[1:2] != ["check"] or conf.faults():
        return []
    try:
        conf.load().credential  # noqa: B018  (it is read to see whether it can be)
    except ConfigurationError as error:
        hint = "Silence this where no worker runs: one does not start without it."
        return [checks.Warning(str(error), hint=hint, id="orbit_django.W010")]
    return []


def check_keys(**kwargs: Any) -> list[checks.CheckMessage]:
    """E002: settings.ORBIT has a key that does not exist."""
    try:
        unknown = conf.unknown_keys()
    except ConfigurationError:
        return []  # told by E001
    every = f"The keys are {', '.join(conf.keys())}."
    return [
        checks.Error(
            f"settings.ORBIT has the unknown key {key!r}.",
            hint=f"Did you mean {close!r}?" if close else every,
            id="orbit_django.E002",
        )
        for key, close in unknown
    ]


def check_handlers(databases: Sequence[str] | None = None, **kwargs: Any) -> list[checks.CheckMessage]:
    """E003: a handler cannot be served; E004: a handler names a database alias that does not exist.

    Only a worker is stopped by them; to ``migrate`` they are warnings.
    """
    level = level_of_mistakes(databases)
    hint = "A worker will not start."
    told = [(text, "E003") for text in (*registry.faults, *type_faults(registry))]
    told += [(text, "E004") for text in alias_faults(registry)]
    return [checks.CheckMessage(level, text, hint=hint, id=f"orbit_django.{code}") for text, code in told]


def check_contracts(databases: Sequence[str] | None = None, **kwargs: Any) -> list[checks.CheckMessage]:
    """Compare handlers with CONTRACTS.

    E005: a file cannot be read; E006: no run of a handler could succeed; W003: a handler has no contract; W004: the
    versions differ; W005: a contract has no handler; W006: a field looks different. To ``migrate`` all are warnings.
    """
    level = level_of_mistakes(databases)
    try:
        settings = conf.load()
    except ConfigurationError:
        return []  # told by E001
    try:
        found = differences(settings, registry)
    except ConfigurationError as error:
        hint = (
            "Correct the file, or the setting CONTRACTS that names it. "
            "The documentation has the language on its page reference/contracts."
        )
        return [checks.CheckMessage(level, str(error), hint=hint, id="orbit_django.E005")]
    return [
        checks.CheckMessage(
            level if each.is_wrong else checks.WARNING, each.text, hint=each.advice, id=f"orbit_django.{each.code}"
        )
        for each in found
    ]


def check_starts(**kwargs: Any) -> list[checks.CheckMessage]:
    """W001: CONTRACTS declares workflows, and a worker with these settings would send no start of one.

    Only with ``check --deploy``: a project that never uses ``start_on_commit``, or whose workers alone have the admin
    token, is not to be warned whenever it is run. A worker without TOKEN warns by itself of the starts that wait.
    """
    try:
        settings = conf.load()
        if settings.may_start or not contracts.load(settings.contracts).workflows:
            return []
    except ConfigurationError:
        return []  # E001 tells of a setting, whoever runs the contracts of a file
    hint = "Set TOKEN where workers run, or silence this where no code calls start_on_commit."
    return [
        checks.Warning(
            "CONTRACTS declares workflows, but TOKEN is not set: a worker with these settings leaves what"
            " start_on_commit asks for to one that has it.",
            hint=hint,
            id="orbit_django.W001",
        )
    ]


def differences(settings: conf.OrbitSettings, tasks: Iterable[Task]) -> list[Difference]:
    """Return in what handlers and the files of CONTRACTS differ; raise ConfigurationError for a file that is wrong.

    No handler is called missing while one could not be registered (E003): that may be it.
    """
    hidden = NO_HANDLER if registry.faults else ""
    found = compare(tasks, contracts.load(settings.contracts), settings.runtime)
    return [each for each in found if each.code != hidden]


def handler_faults(tasks: Iterable[Task]) -> list[str]:
    """Return one text for each handler that cannot be served, those that were not even registered included."""
    tasks = tuple(tasks)
    return [*registry.faults, *type_faults(tasks), *alias_faults(tasks)]


def type_faults(tasks: Iterable[Task]) -> list[str]:
    """Look into the types only now: while modules are imported, some names in them may not exist yet."""
    kinds = ((task, kind) for task in tasks for kind in (task.input_type, task.output_type) if kind is not None)
    return [f"{task.place}: {text}" for task, kind in kinds if (text := shapes.unreadable(kind))]


def alias_faults(tasks: Iterable[Task]) -> list[str]:
    """Return one text for each handler whose ``using`` names no database."""
    return [
        f"{task.place}: using={task.using!r} is no database alias in DATABASES"
        for task in tasks
        if task.using and task.using not in connections
    ]


def _transport_faults() -> list[str]:
    try:
        if "." in (path := conf.load().transport):
            find_binding(path)
    except ConfigurationError as error:
        return [str(error)]
    return []

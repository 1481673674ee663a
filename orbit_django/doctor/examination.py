"""Everything that is looked at, in the order in which it is told."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from orbit_django import conf
from orbit_django.doctor.databases import Load, look_at_database
from orbit_django.doctor.findings import Finding, within, wrong
from orbit_django.doctor.grpc import look_at_grpc
from orbit_django.doctor.project import (
    look_at_client_certificate,
    look_at_contracts,
    look_at_models,
    look_at_settings,
    look_at_tasks,
)
from orbit_django.doctor.registration import ABOUT, look_at_registration
from orbit_django.doctor.runtime import look_at_runtime
from orbit_django.doctor.weave import look_at_weave
from orbit_django.exceptions import ConfigurationError
from orbit_django.tasks import Registry
from orbit_django.worker.worker import aliases_of

RUNTIME_SECONDS = 30.0
DATABASE_SECONDS = 10.0


def examine(found: Registry, processes: int = 1, *, is_registering: bool = False, **options: Any) -> Iterator[Finding]:
    """Yield every finding; no text holds a credential. ``options`` are command-line values of settings.

    With ``is_registering`` a session of an ORBIT runtime is opened and closed, which nothing else here does.
    """
    yield from look_at_settings(**options)
    yield from look_at_tasks(found)
    try:
        settings = conf.load(**options)
        settings.redact(settings.credential or "")
    except ConfigurationError as error:
        if conf.faults(**options):
            return  # told already; nothing else can be looked at
        yield wrong("settings", str(error), "correct it; nothing else can be looked at before")
        return
    for finding in _outside(settings, found, processes, is_registering):
        yield finding._replace(text=settings.redact(finding.text))


def _outside(settings: conf.OrbitSettings, found: Registry, processes: int, is_registering: bool) -> Iterator[Finding]:
    yield from look_at_contracts(settings, found)
    yield from within(DATABASE_SECONDS, "models", look_at_models)
    yield from look_at_client_certificate(settings)
    look = partial(look_at_weave, settings, tuple(found)) if settings.is_weave else partial(look_at_runtime, settings)
    yield from within(RUNTIME_SECONDS, "runtime", look)
    if settings.transport == "grpc":
        yield from within(RUNTIME_SECONDS, "gRPC", partial(look_at_grpc, settings))
    if is_registering and not settings.is_weave:
        contracts = tuple(task.contract for task in found)
        yield from within(RUNTIME_SECONDS, ABOUT, partial(look_at_registration, settings, contracts))
    load = Load(settings.concurrency, processes, settings.may_start)
    for using in aliases_of(settings, found):
        yield from within(DATABASE_SECONDS, f"database {using}", partial(look_at_database, using, load))

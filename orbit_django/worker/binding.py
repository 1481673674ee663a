"""Which binding a worker speaks: chosen by name, or by the dotted path of a project's own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from orbit_django.conf import OrbitSettings
from orbit_django.conf.addresses import is_loopback, split_target
from orbit_django.exceptions import ConfigurationError
from orbit_django.payloads import words_of
from orbit_django.tasks import Task
from orbit_django.transports.base import Transport, check_binding, find_binding
from orbit_django.transports.http import HttpTransport
from orbit_django.transports.weave import MAX_TYPES, WeaveTransport

EXTRA = ("grpc", "google")  # top names of what the extra `grpc` installs


def open_transport(settings: OrbitSettings) -> Transport:
    """Return the binding that TRANSPORT names; a dotted path names a callable that takes the settings.

    Raises ConfigurationError for a name that is none, and for certificates that cannot be used.
    """
    settings.credential  # noqa: B018  (a token file that cannot be read is a mistake of the start)
    if settings.transport == "http":
        return HttpTransport(
            settings.server,
            credential=lambda: settings.credential,
            ca_cert=settings.ca_cert,
            client_cert=settings.client_cert,
            client_key=settings.client_key,
            proxy=settings.proxy,
            is_lean=True,
        )
    if settings.transport == "weave":
        return WeaveTransport(settings.weave, capacity=settings.concurrency, **wire_options(settings))
    if settings.transport == "grpc":
        return _open_grpc(settings)
    if "." not in settings.transport:
        raise ConfigurationError(
            f"TRANSPORT: {settings.transport!r} is unknown; expected 'http', 'grpc', 'weave' or a dotted path"
        )
    opened = _call(settings)
    check_binding(opened, settings.transport)
    return opened


def _call(settings: OrbitSettings) -> Transport:
    """Return what the callable that TRANSPORT names makes of the settings."""
    make = find_binding(settings.transport)
    try:
        made: Transport = make(settings)
    except ConfigurationError:
        raise
    except (Exception, SystemExit) as error:
        text = settings.redact(" ".join(f"{type(error).__name__}: {words_of(error)}".split()))
        raise ConfigurationError(f"TRANSPORT: {settings.transport!r} raised {text}") from error
    return made


def check_ready(settings: OrbitSettings, tasks: Sequence[Task]) -> None:
    """Raise ConfigurationError for what a worker needs beyond a way to its runtime: with Weave, an admitted release."""
    if not settings.is_weave:
        return
    if settings.lacking:
        raise ConfigurationError(settings.lacking[0])
    if len(tasks) > MAX_TYPES:
        raise ConfigurationError(f"a Weave instance offers up to {MAX_TYPES} tasks, found {len(tasks)}; use --task")


def wire_options(settings: OrbitSettings) -> dict[str, Any]:
    """Return what every connection of a worker has in common: whom to trust, what to show, which way to go."""
    return {
        "ca_cert": settings.ca_cert,
        "client_cert": settings.client_cert,
        "client_key": settings.client_key,
        "proxy": settings.proxy,
    }


def is_credential_exposed(settings: OrbitSettings) -> bool:
    """Return whether the token travels unencrypted to another machine."""
    parts = urlsplit(settings.reports_to)
    hosts = [parts.hostname or ""]
    if settings.transport == "grpc" and settings.grpc_target:
        hosts.append(split_target(settings.grpc_target)[0])
    is_away = not all(map(is_loopback, hosts))
    has_token = settings.is_weave or settings.credential is not None
    return parts.scheme == "http" and is_away and has_token


def _open_grpc(settings: OrbitSettings) -> Transport:
    try:
        from orbit_django.transports.grpc import open_grpc
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in EXTRA:
            raise
        raise ConfigurationError(
            "TRANSPORT: 'grpc' needs packages that are not installed: pip install 'orbit_django[grpc]'"
        ) from None
    return open_grpc(settings)

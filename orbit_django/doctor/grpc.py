"""The gRPC side of a runtime: target, TLS, version of the service, credential; it is asked as a worker asks it."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import closing
from http import HTTPStatus
from urllib.parse import urlsplit

from orbit_django.clock import SystemClock
from orbit_django.conf import OrbitSettings
from orbit_django.conf.addresses import split_target
from orbit_django.doctor.findings import Finding, note, ok, wrong
from orbit_django.doctor.runtime import credential_name, look_at_certificate
from orbit_django.exceptions import ConfigurationError, NoAnswerError, RefusedError, UnknownSessionError
from orbit_django.transports.base import Transport
from orbit_django.transports.inspection import CALL_SECONDS, NO_SESSION, Inspection
from orbit_django.worker.binding import is_credential_exposed, open_transport

SERVICE = "orbit.worker.v1"
AWAY = (
    "start the runtime with --grpc-addr (orbit_runtime: --grpc-port), or correct GRPC_TARGET; SERVER is https when"
    " it is encrypted; workers wait for it"
)


def look_at_grpc(settings: OrbitSettings) -> Iterator[Finding]:
    """Tell all that can be learned of the gRPC side; when it does not answer, only why. Leave nothing behind there."""
    try:
        transport = open_transport(settings)
    except ConfigurationError as error:
        yield wrong("gRPC", str(error), "a worker ends with code 2 until that is corrected")
        return
    with closing(transport):
        began = SystemClock().monotonic()
        try:
            refusal = _heartbeat(transport)
        except (NoAnswerError, OSError) as error:
            yield wrong("gRPC", str(error), AWAY)
            yield from _look_at_tls(settings, is_away=True)
            return
        took = (SystemClock().monotonic() - began) * 1000
        yield ok("gRPC", f"{settings.grpc_target} answers, in {took:.0f} ms")
        yield from _look_at_tls(settings)
        yield from _look_at_answer(settings, refusal)


def _heartbeat(transport: Transport) -> RefusedError | UnknownSessionError | None:
    """Ask for a session that does not exist; return how that was refused, None when it was not (O083)."""
    try:
        transport.heartbeat(NO_SESSION, timeout_seconds=CALL_SECONDS)
    except (RefusedError, UnknownSessionError) as error:
        return error
    return None


def _look_at_tls(settings: OrbitSettings, *, is_away: bool = False) -> Iterator[Finding]:
    if urlsplit(settings.server).scheme != "https":
        if is_credential_exposed(settings):
            yield note("gRPC TLS", "not encrypted, since SERVER is http", "use https; tokens and inputs can be read")
        return
    target = split_target(settings.grpc_target or "")
    try:
        shown = Inspection(settings).certificate(target)
    except ssl.SSLError as error:
        advice = "look at CA_CERT, and whether the certificate is for the name in GRPC_TARGET"
        yield wrong("gRPC TLS", f"the certificate was not accepted: {error}", advice)
    except OSError as error:
        if not is_away:  # else it has been told
            yield wrong("gRPC TLS", f"the certificate could not be looked at: {error}", "look at GRPC_TARGET")
    else:
        yield look_at_certificate("gRPC TLS", settings, shown)


def _look_at_answer(settings: OrbitSettings, refusal: RefusedError | UnknownSessionError | None) -> Iterator[Finding]:
    if isinstance(refusal, RefusedError) and refusal.status == HTTPStatus.NOT_FOUND and not refusal.is_from_runtime:
        yield wrong("gRPC version", f"nothing there knows {SERVICE}", "GRPC_TARGET leads to something else; look there")
    elif isinstance(refusal, RefusedError) and refusal.status == HTTPStatus.UNAUTHORIZED:
        name = credential_name(settings)
        text = f"{name} is not accepted" if settings.credential else "the runtime wants a credential, and none is set"
        yield wrong("gRPC credential", text, "set WORKER_TOKEN or WORKER_TOKEN_FILE to a token that the runtime knows")
    elif isinstance(refusal, UnknownSessionError):
        yield ok("gRPC version", SERVICE)
        yield _told_credential(settings)
    else:
        said = refusal or "as if that session were there"
        advice = "look at the token, the workers file and GRPC_TARGET"
        yield wrong("gRPC credential", f"a heartbeat was answered {said}", advice)


def _told_credential(settings: OrbitSettings) -> Finding:
    if settings.credential is None and settings.client_cert is None:
        return note("gRPC credential", "none is set, and the runtime wants none", "good for development alone")
    return ok("gRPC credential", f"{credential_name(settings)} is accepted")

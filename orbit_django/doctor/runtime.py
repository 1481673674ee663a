"""The runtime's side: address, TLS, credential, clock, version of the protocol."""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

from orbit_django.clock import SystemClock
from orbit_django.conf import OrbitSettings
from orbit_django.conf.addresses import is_loopback
from orbit_django.doctor.findings import Finding, note, ok, wrong
from orbit_django.doctor.project import told_expiry
from orbit_django.exceptions import ConfigurationError, NoAnswerError
from orbit_django.protocol import API_VERSION
from orbit_django.transports.answers import VERSION_HEADER, Answer
from orbit_django.transports.inspection import Inspection

SKEW_SECONDS = 5.0
REFUSALS = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)


def look_at_runtime(settings: OrbitSettings) -> Iterator[Finding]:
    """Tell all that can be learned of a runtime; when it does not answer, only that."""
    inspection = Inspection(settings)
    yield from _look_at_address(settings)
    if settings.transport not in ("http", "grpc"):
        yield note("runtime", f"TRANSPORT is {settings.transport!r}; only the HTTP side is looked at")
    began = SystemClock().monotonic()
    try:
        answer = inspection.heartbeat()
    except (NoAnswerError, ConfigurationError) as error:
        waits = "starts of workflows wait" if settings.transport == "grpc" else "workers wait"
        yield wrong("runtime", str(error), f"start it, or correct SERVER; {waits} until it answers")
        return
    took = (SystemClock().monotonic() - began) * 1000
    yield ok("runtime", f"{settings.server} answers, in {took:.0f} ms")
    yield from _look_at_tls(settings, inspection)
    if _is_foreign(answer):
        told = f"what answers there is no ORBIT runtime: {answer.failure(settings.redact)}"
        yield wrong("runtime", told, "correct SERVER; nothing else can be asked of it")
        return
    yield from _look_at_version(answer)
    yield from look_at_clock(answer)
    yield from _look_at_credential(settings, inspection, answer)
    yield from _look_at_admin_token(settings, inspection)


def _look_at_address(settings: OrbitSettings) -> Iterator[Finding]:
    parts = urlsplit(settings.server)
    way = " through PROXY" if settings.proxy else ""
    if parts.scheme == "http" and not is_loopback(parts.hostname or ""):
        yield note("address", f"{settings.server}{way} is not encrypted", "use https; tokens and inputs can be read")
    else:
        yield ok("address", f"{settings.server}{way}")


def _look_at_tls(settings: OrbitSettings, inspection: Inspection) -> Iterator[Finding]:
    if urlsplit(settings.server).scheme != "https":
        return
    if settings.proxy:
        yield note("TLS", f"verified by {_trusted(settings)}; behind a proxy its certificate is not looked at")
        return
    try:
        shown = inspection.certificate()
    except OSError as error:
        yield wrong("TLS", f"the certificate could not be looked at: {error}", "look at SERVER and CA_CERT")
        return
    yield look_at_certificate("TLS", settings, shown)


def look_at_certificate(about: str, settings: OrbitSettings, shown: dict[str, Any]) -> Finding:
    """Tell who issued a verified certificate and until when it is valid; ``shown`` is as of ``getpeercert``."""
    try:
        end = datetime.fromtimestamp(ssl.cert_time_to_seconds(shown["notAfter"]), UTC)
    except (KeyError, ValueError) as error:
        return wrong(about, f"the certificate could not be looked at: {error}", "look at SERVER and CA_CERT")
    issuer = ", ".join(value for part in shown.get("issuer", ()) for name, value in part if name == "commonName")
    what = f"the certificate, issued by {issuer or 'a nameless authority'}, verified by {_trusted(settings)},"
    return told_expiry(about, what, end)


def _trusted(settings: OrbitSettings) -> str:
    return settings.ca_cert or "the system's authorities"


def _look_at_version(answer: Answer) -> Iterator[Finding]:
    found = answer.headers.get(VERSION_HEADER)
    if found == API_VERSION:
        yield ok("version", found)
    elif found is not None:
        yield note("version", f"the runtime speaks {found[:50]!r}, this package {API_VERSION}", "update one of them")
    elif answer.status not in REFUSALS:
        yield wrong(
            "version", f"the answer has no header {VERSION_HEADER}", "SERVER may lead to something else; look there"
        )


def _is_foreign(answer: Answer) -> bool:
    """Return whether nothing in an answer is a runtime's, nor that of a guard before one."""
    return VERSION_HEADER not in answer.headers and answer.error() is None and answer.status not in REFUSALS


def look_at_clock(answer: Answer) -> Iterator[Finding]:
    """Compare the date of an answer with this machine's clock."""
    found = None
    with contextlib.suppress(ValueError, TypeError):
        found = parsedate_to_datetime(answer.headers.get("date", ""))
    if found is None:
        yield note("clock", "the answer has no date to compare with")
        return
    ahead = SystemClock().wall() - found.timestamp() - 0.5  # a date is cut to seconds
    if abs(ahead) <= SKEW_SECONDS:
        yield ok("clock", "agrees with the runtime's, to the second or so")
    else:
        side = "ahead of" if ahead > 0 else "behind"
        yield wrong(
            "clock",
            f"{abs(ahead):.0f} s {side} the runtime's",
            "synchronize both machines: deadlines and dates are off",
        )


def _look_at_credential(settings: OrbitSettings, inspection: Inspection, answer: Answer) -> Iterator[Finding]:
    name = credential_name(settings)
    if answer.status == HTTPStatus.UNAUTHORIZED:
        text = f"{name} is not accepted" if settings.credential else "the runtime wants a credential, and none is set"
        yield wrong("credential", text, "set WORKER_TOKEN or WORKER_TOKEN_FILE to a token that the runtime knows")
        return
    if answer.status != HTTPStatus.NOT_FOUND or (answer.error() or ("", ""))[0] != "UNKNOWN_SESSION":
        failure = answer.failure(settings.redact)
        yield wrong(
            "credential", f"a heartbeat was answered {failure}", "look at the token, the workers file and SERVER"
        )
        return
    if settings.credential is None and settings.client_cert is None:
        yield note("credential", "none is set, and the runtime wants none", "good for development alone")
    elif _is_admin(inspection, settings.credential):
        advice = "give workers a WORKER_TOKEN of their own; the admin token opens every endpoint"
        yield note("credential", f"{name} is accepted, as the admin token", advice)
    else:
        yield ok("credential", f"{name} is accepted, for a worker's calls and no others")


def _is_admin(inspection: Inspection, token: str | None) -> bool:
    try:
        return inspection.workers(token).is_success
    except NoAnswerError:
        return False


def _look_at_admin_token(settings: OrbitSettings, inspection: Inspection) -> Iterator[Finding]:
    if settings.may_start and settings.token is None and _is_admin(inspection, None):
        yield ok("admin token", "none is set, and the runtime wants none to start workflows")
    elif settings.token is None:
        yield note("admin token", "TOKEN is not set", "set it where workers send what start_on_commit asks for")
    elif _is_admin(inspection, settings.token):
        yield ok("admin token", "TOKEN is accepted")
    else:
        yield wrong("admin token", "TOKEN is not accepted as the admin token", "starts of workflows would stay blocked")


def credential_name(settings: OrbitSettings) -> str:
    """Return the setting that the credential comes from."""
    if settings.worker_token:
        return "WORKER_TOKEN"
    if settings.worker_token_file:
        return "WORKER_TOKEN_FILE"
    return "TOKEN" if settings.token else "the client certificate"

"""The project's side: settings, tasks, and the files of certificates."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from orbit_django import checks, conf
from orbit_django.conf import OrbitSettings
from orbit_django.doctor.findings import Finding, note, ok, wrong
from orbit_django.exceptions import ConfigurationError
from orbit_django.payloads import counted
from orbit_django.tasks import Registry

PEM = re.compile(r"-----BEGIN CERTIFICATE-----(.+?)-----END CERTIFICATE-----", re.DOTALL)
VERSION = 0xA0
UTC_TIME = 0x17
SOON_DAYS = 14


def look_at_settings(**options: object) -> Iterator[Finding]:
    """Tell of every wrong setting and every unknown key."""
    texts = conf.faults(**options)
    for text in texts:
        yield wrong("settings", text, "change it in settings.ORBIT or in the environment")
    if texts:
        return
    unknown = conf.unknown_keys()
    for key, close in unknown:
        yield wrong("settings", f"the key {key!r} is unknown", f"did you mean {close!r}?" if close else "remove it")
    if not unknown:
        yield ok("settings", "every value can be used")


def look_at_tasks(found: Registry) -> Iterator[Finding]:
    """Tell of the tasks, and of what went wrong while they were looked for."""
    for text in found.faults:
        yield wrong("tasks", text, "no worker starts before that is repaired")
    if len(found):
        names = ", ".join(sorted({task.contract.task_name for task in found}))
        yield ok("tasks", f"{len(found)} found: {names if len(names) <= 200 else names[:199] + '…'}")
    elif not found.faults:
        yield wrong(
            "tasks", "none found", "write <app>/tasks_orbit.py with a @task handler; list the app in INSTALLED_APPS"
        )


def look_at_contracts(settings: OrbitSettings, found: Registry) -> Iterator[Finding]:
    """Tell of each difference between handlers and the files of CONTRACTS; nothing where none are named."""
    if not settings.contracts:
        return
    try:
        differences = checks.differences(settings, found)
    except ConfigurationError as error:
        yield wrong("contracts", str(error), "correct the file, or the setting CONTRACTS that names it")
        return
    for each in differences:
        tell = wrong if each.is_wrong else note
        yield tell("contracts", f"{each.code} {each.text}", each.advice)
    if not differences and not found.faults:
        yield ok("contracts", "handlers and CONTRACTS agree")


def look_at_models() -> Iterator[Finding]:
    """Tell of models that no migration follows."""
    for text, advice in checks.unmigrated_changes():
        yield note("models", text, advice)


def look_at_client_certificate(settings: OrbitSettings) -> Iterator[Finding]:
    """Tell until when the client certificate is valid."""
    if settings.client_cert is None:
        return
    try:
        end = expiry_of(Path(settings.client_cert).read_text(encoding="ascii", errors="replace"))
    except (OSError, ValueError) as error:
        yield note("client certificate", f"{settings.client_cert}: {error}", "see until when it is valid")
        return
    yield told_expiry("client certificate", settings.client_cert, end)


def told_expiry(about: str, what: str, end: datetime) -> Finding:
    """Return what is to be said of a certificate that ends then."""
    left = end - datetime.now(UTC)
    day = f"{end:%Y-%m-%d}"
    if left.total_seconds() <= 0:
        return wrong(about, f"{what} has expired on {day}", "renew it; a running worker reads the new file by itself")
    if left.days < SOON_DAYS:
        return note(about, f"{what} expires on {day}, in {counted(left.days, 'day')}", "renew it")
    return ok(about, f"{what} is valid until {day}")


def expiry_of(pem: str) -> datetime:
    """Return when the first certificate of a PEM text ends; raise ValueError when there is none that can be read."""
    found = PEM.search(pem)
    if found is None:
        raise ValueError("holds no certificate")
    try:
        return _expiry(base64.b64decode(found[1]))
    except (binascii.Error, IndexError, UnicodeDecodeError) as error:
        raise ValueError(f"the certificate cannot be read: {error}") from None


def _expiry(certificate: bytes) -> datetime:
    """Walk through the fields of a certificate (X.509, in DER) to the second of its two times."""
    _, body = _field(_field(certificate)[1])
    fields = list(_fields(body))
    if fields[0][0] == VERSION:
        fields = fields[1:]
    _, _, _, (_, validity), *_ = fields  # serial number, algorithm, issuer, validity
    _, (kind, text) = _fields(validity)
    shape = "%y%m%d%H%M%SZ" if kind == UTC_TIME else "%Y%m%d%H%M%SZ"
    return datetime.strptime(text.decode("ascii"), shape).replace(tzinfo=UTC)


def _fields(data: bytes) -> Iterator[tuple[int, bytes]]:
    while data:
        kind, content = _field(data)
        yield kind, content
        data = _rest(data)


def _field(data: bytes) -> tuple[int, bytes]:
    """Return kind and content of the first field."""
    start, length = _extent(data)
    return data[0], data[start : start + length]


def _rest(data: bytes) -> bytes:
    start, length = _extent(data)
    return data[start + length :]


def _extent(data: bytes) -> tuple[int, int]:
    """Return where the content of the first field begins, and how long it is."""
    if data[1] < 0x80:
        return 2, data[1]
    size = data[1] & 0x7F
    return 2 + size, int.from_bytes(data[2 : 2 + size])

"""The TLS side of a connection: whom to trust, and the certificate to show.

The context always verifies the server. Environment variables that name certificate authorities have no say.
"""

from __future__ import annotations

import logging
import ssl
import threading
from pathlib import Path

import certifi

from orbit_django.conf.files import Mark, mark_of
from orbit_django.exceptions import ConfigurationError
from orbit_django.logs import SteadyLogger
from orbit_django.transports.limits import TimedTlsSocket

logger = SteadyLogger(logging.getLogger(__name__))


class TlsFiles:
    """A TLS context made from PEM files, and made again when one of the files changes.

    ``ca_cert`` is trusted instead of the system's authorities (O203); without ``client_key`` the key is read from
    the file of ``client_cert`` (O204).
    """

    def __init__(self, ca_cert: str | None, client_cert: str | None, client_key: str | None) -> None:
        self._ca_cert = ca_cert
        self._client_cert = client_cert
        self._client_key = client_key
        self._lock = threading.Lock()
        self._marks = self._read_marks()
        self._context = self._build()

    def context(self) -> ssl.SSLContext:
        """Return the context for the files as they are now; while they are unusable, the last good one."""
        with self._lock:
            marks = self._read_marks()
            if marks != self._marks:
                self._marks = marks
                try:
                    self._context = self._build()
                except ConfigurationError as error:
                    logger.warning("changed certificate files are not usable yet", extra={"reason": str(error)})
            return self._context

    def _read_marks(self) -> tuple[Mark | None, ...]:
        return tuple(mark_of(path) for path in (self._ca_cert, self._client_cert, self._client_key) if path)

    def _build(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.sslsocket_class = TimedTlsSocket
        if self._ca_cert:
            _trust(context, self._ca_cert)
        else:
            _trust_system(context)
        if self._client_cert:
            _show(context, self._client_cert, self._client_key)
        return context


def authorities(ca_cert: str | None) -> bytes:
    """Return as PEM what TlsFiles trusts, for a library that takes no context."""
    if ca_cert:
        return Path(ca_cert).read_bytes()
    places = ssl.get_default_verify_paths()
    file, folder = Path(places.openssl_cafile), Path(places.openssl_capath)
    files = [file] if file.is_file() else sorted(folder.glob("*.[0-9]")) if folder.is_dir() else []
    return b"\n".join(each.read_bytes() for each in files or [Path(certifi.where())])


def _trust(context: ssl.SSLContext, path: str) -> None:
    try:
        context.load_verify_locations(cafile=path)
    except OSError as error:
        raise ConfigurationError(f"CA_CERT: {path} is no readable PEM certificate: {_why(error)}") from None


def _trust_system(context: ssl.SSLContext) -> None:
    """Load the authorities from where OpenSSL was built to look, else those that came with ``requests``."""
    places = ssl.get_default_verify_paths()
    file, folder = Path(places.openssl_cafile), Path(places.openssl_capath)
    if file.is_file():
        context.load_verify_locations(cafile=file)
    if folder.is_dir() and any(folder.iterdir()):
        context.load_verify_locations(capath=folder)
    elif not file.is_file():
        context.load_verify_locations(cafile=certifi.where())


def _show(context: ssl.SSLContext, certificate: str, key: str | None) -> None:
    try:
        # The empty password keeps OpenSSL from asking for one at the terminal.
        context.load_cert_chain(certificate, key, password="")
    except OSError as error:
        names = f"CLIENT_CERT {certificate}" + (f" and CLIENT_KEY {key}" if key else " (which is to hold the key, too)")
        raise ConfigurationError(f"{names}: no usable certificate with its unencrypted key: {_why(error)}") from None


def _why(error: OSError) -> str:
    return str(getattr(error, "reason", None) or error.strerror or type(error).__name__)

"""Looking at a runtime without leaving anything there: a call that is surely refused, and the certificate it shows."""

from __future__ import annotations

import json
import socket
from typing import Any
from urllib.parse import urlsplit

from orbit_django.conf import OrbitSettings
from orbit_django.transports.answers import Answer
from orbit_django.transports.connection import HttpConnection
from orbit_django.transports.limits import CALL
from orbit_django.transports.tls import TlsFiles

CALL_SECONDS = 5.0
NO_SESSION = "orbit-doctor"  # a session that no runtime ever opened


class Inspection:
    """The questions that ``orbit_doctor`` has; each may raise NoAnswerError and ConfigurationError."""

    def __init__(self, settings: OrbitSettings) -> None:
        self._settings = settings
        self._files = (settings.ca_cert, settings.client_cert, settings.client_key)

    def heartbeat(self) -> Answer:
        """Ask with the worker's credential for a session that does not exist: 404 when it is accepted (O083)."""
        return self._call("POST", "/v1/workers/heartbeat", {"worker_session_id": NO_SESSION}, self._settings.credential)

    def workers(self, token: str | None) -> Answer:
        """Ask for the list of workers, which takes the admin token (O113)."""
        return self._call("GET", "/v1/workers", None, token)

    def certificate(self, target: tuple[str, int] | None = None) -> dict[str, Any]:
        """Return the certificate that the runtime shows, verified, in the form of ``SSLSocket.getpeercert``.

        It is looked at where SERVER leads, or at the host and port of its gRPC side. Raises OSError, of which
        ssl.SSLError is one.
        """
        parts = urlsplit(self._settings.server)
        host, port = target or (str(parts.hostname), parts.port or 443)
        context = TlsFiles(*self._files).context()
        if target:
            context.set_alpn_protocols(["h2"])  # which gRPC insists on
        CALL.begin(CALL_SECONDS, CALL_SECONDS)
        with (
            socket.create_connection((host, port), CALL_SECONDS) as plain,
            context.wrap_socket(plain, server_hostname=host) as shown,
        ):
            return shown.getpeercert() or {}

    def _call(self, method: str, path: str, body: object | None, credential: str | None) -> Answer:
        ca_cert, client_cert, client_key = self._files
        connection = HttpConnection(
            self._settings.server,
            credential=lambda: credential,
            ca_cert=ca_cert,
            client_cert=client_cert,
            client_key=client_key,
            proxy=self._settings.proxy,
        )
        text = None if body is None else json.dumps(body)
        try:
            return connection.call(method, path, text, connect_seconds=CALL_SECONDS, total_seconds=CALL_SECONDS)
        finally:
            connection.close()

"""One HTTP connection: reads requests, has them answered, writes the answers. No rule of the protocol is here."""

from __future__ import annotations

import logging
import socket
import ssl
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qsl

from orbit_django.embedded.answers import Answer, Host, Request
from orbit_django.embedded.listener import ClosedError
from orbit_django.embedded.server.passage import outcome
from orbit_django.logs import SteadyLogger

logger = SteadyLogger(logging.getLogger(__name__))
_CHUNK = 65536
_MOST_DRAINED = 64 * 1024 * 1024
_HANDSHAKE_SECONDS = 10


class Connection(BaseHTTPRequestHandler):
    """Serves one connection until the client closes it."""

    protocol_version = "HTTP/1.1"
    server_version = "orbit-embedded"
    sys_version = ""
    disable_nagle_algorithm = True

    def __init__(self, *args: Any, host: Host) -> None:
        self.host = host
        super().__init__(*args)

    def setup(self) -> None:
        """Finish a TLS handshake in this thread, so that a slow client holds up nobody."""
        if isinstance(self.request, ssl.SSLSocket):
            self.request.settimeout(_HANDSHAKE_SECONDS)
            self.request.do_handshake()
            self.request.settimeout(None)
        super().setup()

    def serve(self) -> None:
        """Answer one request."""
        try:
            request = self._request()
        except (ClosedError, OSError, ValueError):  # broken off, or no HTTP
            self.close_connection = True
            return
        answer = outcome(self.host, request, self._certificate_names())
        if answer is None:
            self.close_connection = True
        else:
            self._write(answer)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = do_OPTIONS = serve  # noqa: N815 (names of the base class)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (the base class's name)
        """Keep the base class from writing to stderr; headers, and so credentials, are never logged."""
        logger.debug(format, *args)

    def _request(self) -> Request:
        path, _, query = self.path.partition("?")
        body = self._read()
        return Request(self.command, path, dict(parse_qsl(query)), self.headers, body, is_gone=self._is_gone)

    def _certificate_names(self) -> frozenset[str] | None:
        certificate: dict[str, Any] | None = (
            self.request.getpeercert() if isinstance(self.request, ssl.SSLSocket) else None
        )
        if not certificate:
            return None
        names = [value for kind, value in certificate.get("subjectAltName", ()) if kind == "DNS"]
        parts = [part for group in certificate.get("subject", ()) for part in group]
        return frozenset(names + [value for kind, value in parts if kind == "commonName"])

    def _read(self) -> bytes | None:
        """Return the body, or None for one above the limit, read and thrown away so that the answer arrives."""
        if "chunked" in self.headers.get("transfer-encoding", "").lower():
            return self._read_chunked()
        size = self.headers.get("content-length", "0")
        length = int(size) if size.isascii() and size.isdecimal() else 0
        if length <= self.host.max_body:
            return self._exactly(length)
        left = min(length, _MOST_DRAINED)
        self.close_connection = self.close_connection or length > left
        while left and (data := self.rfile.read(min(left, _CHUNK))):
            left -= len(data)
        return None

    def _exactly(self, length: int) -> bytes:
        if length < 0:
            raise ClosedError("no size is below zero")
        data = self.rfile.read(length)
        if len(data) < length:
            raise ClosedError("the client hung up in the middle of its request")
        return data

    def _read_chunked(self) -> bytes | None:
        body = bytearray()
        while size := int(self.rfile.readline(100).split(b";")[0], 16):
            data = self._exactly(size)
            self.rfile.readline(10)
            if len(body) <= self.host.max_body:
                body += data
        while self.rfile.readline(_CHUNK).strip():
            pass  # trailers
        return bytes(body) if len(body) <= self.host.max_body else None

    def _is_gone(self) -> bool:
        """Say whether the client has closed its side, without taking anything from the connection."""
        try:
            # The plain socket's call also on TLS: only the end of the stream matters.
            return socket.socket.recv(self.request, 1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
        except BlockingIOError:
            return False
        except OSError:
            return True

    def _write(self, answer: Answer) -> None:
        self.close_connection = self.close_connection or answer.is_cut
        lines = [f"HTTP/1.1 {answer.status} {HTTPStatus(answer.status).phrase}", f"date: {self.date_time_string()}"]
        if answer.content_type:
            lines.append(f"content-type: {answer.content_type}")
        if answer.version:
            lines.append(f"x-orbit-api-version: {answer.version}")
        if answer.status != HTTPStatus.NO_CONTENT:
            lines.append(f"content-length: {len(answer.body)}")
        if self.close_connection:
            lines.append("connection: close")
        lines += [f"{name}: {value}" for name, value in answer.headers]
        head = "\r\n".join(lines).encode() + b"\r\n\r\n"
        body = answer.body[: len(answer.body) // 2] if answer.is_cut else answer.body
        try:
            self.wfile.write(head if self.command == "HEAD" else head + body)
        except OSError:
            self.close_connection = True  # the client did not wait for its answer

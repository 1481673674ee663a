"""One HTTP connection: reads requests, has them answered, writes the answers. No rule of the protocol is here."""

from __future__ import annotations

import logging
import socket
import ssl
from dataclasses import replace
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qsl

from orbit_django.embedded.server import page
from orbit_django.embedded.server.answers import HTML, Answer, Host, Request, error_answer
from orbit_django.embedded.server.polls import ClosedError
from orbit_django.embedded.server.routes import respond
from orbit_django.exceptions import RuntimeRefusalError
from orbit_django.protocol import API_VERSION

logger = logging.getLogger(__name__)
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
        path, _, query = self.path.partition("?")
        try:
            body = self._read()
            request = Request(self.command, path, dict(parse_qsl(query)), self.headers, body, is_gone=self._is_gone)
            answer = self._answer(request)
        except (ClosedError, OSError):
            answer = None
        except Exception:  # one request must not end the server; the client sees a 500
            logger.exception("a request of the embedded runtime failed")
            answer = error_answer(RuntimeRefusalError(500, "INTERNAL", "the runtime failed; see its log"))
        if answer is None:
            self.close_connection = True
        else:
            self._write(answer)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = do_OPTIONS = serve  # noqa: N815 (names of the base class)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (the base class's name)
        """Keep the base class from writing to stderr; headers, and so credentials, are never logged."""
        logger.debug(format, *args)

    def _answer(self, request: Request) -> Answer | None:
        try:
            request.caller = self.host.credentials.caller(self.headers.get("authorization"), self._certificate_names())
            request.caller.check_path(request.path)
        except RuntimeRefusalError as error:
            return _refusal(error, request)
        if (faults := self.host.faults) is None:
            return respond(self.host, request)
        with self.host.changing() as runtime:
            early = faults.before(request.call, runtime)
        if early is not None:
            return Answer(early[0], early[2], early[1])
        answer = respond(self.host, request)
        self.host.pause(faults.pause(request.call))
        with self.host.changing() as runtime:
            body = faults.after(request.call, answer.status, answer.body, runtime)
        return None if body is None else replace(answer, body=body)

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
        lines = [f"HTTP/1.1 {answer.status} {HTTPStatus(answer.status).phrase}"]
        if answer.content_type:
            lines.append(f"content-type: {answer.content_type}")
        if answer.is_authenticated:
            lines.append(f"x-orbit-api-version: {API_VERSION}")
        if answer.status != HTTPStatus.NO_CONTENT:
            lines.append(f"content-length: {len(answer.body)}")
        if self.close_connection:
            lines.append("connection: close")
        head = "\r\n".join(lines).encode() + b"\r\n\r\n"
        try:
            self.wfile.write(head if self.command == "HEAD" else head + answer.body)
        except OSError:
            self.close_connection = True  # the client did not wait for its answer


def _refusal(error: RuntimeRefusalError, request: Request) -> Answer:
    if request.path == "/":
        return Answer(error.status, page.refusal(error.message).encode(), HTML, is_authenticated=False)
    answer = error_answer(error)
    return Answer(answer.status, answer.body, answer.content_type, is_authenticated=False)

"""The calls that every task makes, over one kept connection of the standard library.

``requests`` spends most of a call on preparing it; here the head of each request is prepared once. What goes over
the wire, the limits and the errors are those of the plain way: one suite of tests runs over both.
"""

from __future__ import annotations

import select
import ssl
import threading
import zlib
from collections.abc import Iterable
from functools import partial
from http import HTTPStatus
from http.client import HTTPException, HTTPResponse, LineTooLong
from typing import IO, NamedTuple
from urllib.parse import urlsplit

import requests
from requests.structures import CaseInsensitiveDict

from orbit_django.protocol import SDK
from orbit_django.transports.answers import MAX_BODY_BYTES, Answer, whole
from orbit_django.transports.limits import CALL, TimedSocket, dial

CHUNK_BYTES = 65_536
MAX_HEADS = 12
MAX_FIELDS, MAX_LINE_BYTES = 100, 65_536
ONE_PIECE_BYTES = 65_536  # head and body up to here leave together

HEADERS = {"user-agent": SDK, "accept": "application/json", "accept-encoding": "identity"}  # of either way


class Place(NamedTuple):
    """Where requests go."""

    host: str
    port: int
    base: str  # the path before every path
    name: str  # the value of the host header

    @classmethod
    def of(cls, server: str) -> Place:
        """Read a URL as ``requests`` does, which knows international names."""
        url = urlsplit(str(requests.Request("POST", server).prepare().url))
        port = url.port or (443 if url.scheme == "https" else 80)
        return cls(url.hostname or "", port, url.path.rstrip("/"), url.netloc)


class KeptConnection:
    """One connection to one server, for one thread; opened when it is needed, checked before it is used again."""

    def __init__(self, place: Place, context: ssl.SSLContext | None) -> None:
        self._socket: TimedSocket | ssl.SSLSocket | None = None
        self._place = place
        self._context = context
        self._poll = select.poll()
        self._heads: dict[tuple[str, str], bytes] = {}
        self._lock = threading.Lock()  # held during a call

    def post(self, path: str, authorization: str, content: bytes) -> Answer:
        """Make one call within the limits of ``CALL``; raises OSError or HTTPException when no whole answer came."""
        with self._lock:
            is_whole = False
            try:
                self._send(self._head(path, authorization) + b"%d\r\n\r\n" % len(content), content)
                answer, is_open = self._receive()
                is_whole = is_open
            finally:
                if not is_whole:
                    self._drop()
            return answer

    def __del__(self) -> None:
        """Close the connection with the thread that had it."""
        self._drop()

    def close(self) -> None:
        """Let go of the connection, unless a call is under way."""
        if self._lock.acquire(blocking=False):
            try:
                self._drop()
            finally:
                self._lock.release()

    def _head(self, path: str, authorization: str) -> bytes:
        """Return everything up to the length of the body; an ``authorization`` may be empty (O030, O041)."""
        head = self._heads.get((path, authorization))
        if head is None:
            fields = {"host": self._place.name, **HEADERS, "content-type": "application/json"}
            if authorization:
                fields["authorization"] = authorization
            lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
            text = f"POST {self._place.base}{path} HTTP/1.1\r\n{lines}content-length: "
            if len(self._heads) > MAX_HEADS:  # the credential has changed a few times
                self._heads.clear()
            head = self._heads[path, authorization] = text.encode("latin-1")
        return head

    def _send(self, head: bytes, content: bytes) -> None:
        if self._socket is not None and self._poll.poll(0):  # closed by the other side, or it spoke unasked
            self._drop()
        sock = self._socket or self._connect()
        CALL.is_sending = True
        if len(content) <= ONE_PIECE_BYTES:
            sock.sendall(head + content)
        else:
            sock.sendall(head)
            sock.sendall(content)

    def _connect(self) -> TimedSocket | ssl.SSLSocket:
        plain = dial(self._place.host, self._place.port)
        try:
            name = self._place.host.rstrip(".")
            sock = plain if self._context is None else self._context.wrap_socket(plain, server_hostname=name)
        except BaseException:
            plain.close()
            raise
        self._socket = sock
        self._poll = select.poll()
        self._poll.register(sock, select.POLLIN)
        return sock

    def _receive(self) -> tuple[Answer, bool]:
        """Read one answer; return it, and whether the connection may be used again."""
        assert self._socket is not None  # noqa: S101  (it was just written to)
        with _Response(self._socket, method="POST") as response:
            response.begin()
            body = _decoded(whole(_pieces(response)), response.fields.get("content-encoding", ""))
            return Answer(response.status, response.fields, body), not response.will_close

    def _drop(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None


class _Response(HTTPResponse):
    """A response whose header is read without the parser of mails, which takes longer than all the rest."""

    def begin(self) -> None:
        """Read the status and the header of the final answer."""
        while True:
            version, self.status, self.reason = self._read_status()  # type: ignore[attr-defined]  # not in its stubs
            self.fields = _fields(self.fp)
            if self.status >= HTTPStatus.OK:
                break
        self.version = 11 if version != "HTTP/1.0" else 10
        self.chunked = "chunked" in self.fields.get("transfer-encoding", "").lower()
        self.chunk_left = None
        self.length = self._told_length()
        said = self.fields.get("connection", "").lower()
        is_kept = "close" not in said and (self.version == 11 or "keep-alive" in said)
        self.will_close = not is_kept or (self.length is None and not self.chunked)

    def _told_length(self) -> int | None:
        if self.status in (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED):
            return 0
        told = self.fields.get("content-length", "")
        return int(told) if told.isascii() and told.isdigit() and not self.chunked else None


def _fields(stream: IO[bytes]) -> CaseInsensitiveDict[str]:
    """Read the lines of a header; raise HTTPException when they are none, or too many."""
    fields: CaseInsensitiveDict[str] = CaseInsensitiveDict()
    for _ in range(MAX_FIELDS):
        line = stream.readline(MAX_LINE_BYTES + 1)
        if len(line) > MAX_LINE_BYTES:
            raise LineTooLong("header line")
        if line in (b"\r\n", b"\n", b""):
            return fields
        name, _, value = line.decode("latin-1").partition(":")
        fields[name] = value.strip()
    raise HTTPException(f"more than {MAX_FIELDS} header lines")


def _pieces(response: HTTPResponse) -> Iterable[bytes]:
    """Return the body: in one piece where its length was told, since only then the end of it is known to be missing."""
    if response.length is not None and response.length <= MAX_BODY_BYTES:
        return (response.read(),)
    return iter(partial(response.read, CHUNK_BYTES), b"")


def _decoded(body: bytes, encoding: str) -> bytes:
    """Undo what a server did although it was asked not to."""
    if encoding.lower() not in ("gzip", "x-gzip", "deflate"):
        return body
    try:
        plain = zlib.decompressobj(zlib.MAX_WBITS | 32).decompress(body, MAX_BODY_BYTES + 1)
    except zlib.error as error:
        raise HTTPException("a body that cannot be decoded") from error
    return whole((plain,))

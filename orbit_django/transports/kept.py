"""The calls that every task makes, over one kept connection.

``requests`` spends most of a call on preparing it; here the head of each request is prepared once. What goes over
the wire, the limits and the errors are those of the plain way: one suite of tests runs over both.
"""

from __future__ import annotations

import select
import ssl
import threading
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import requests

from orbit_django.protocol import SDK
from orbit_django.transports.answers import Answer
from orbit_django.transports.limits import CALL, TimedSocket, TimedTlsSocket, dial
from orbit_django.transports.reading import receive

MAX_HEADS = 12
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
        self._socket: TimedSocket | TimedTlsSocket | None = None
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
                sock = self._send(self._head(path, authorization) + b"%d\r\n\r\n" % len(content), content)
                answer, is_whole = receive(sock)
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

    def _send(self, head: bytes, content: bytes) -> TimedSocket | TimedTlsSocket:
        if self._socket is not None and self._poll.poll(0):  # closed by the other side, or it spoke unasked
            self._drop()
        sock = self._socket or self._connect()
        CALL.is_sending = True
        if len(content) <= ONE_PIECE_BYTES:
            sock.put(head + content)
        else:
            sock.put(head)
            sock.put(content)
        return sock

    def _connect(self) -> TimedSocket | TimedTlsSocket:
        plain = dial(self._place.host, self._place.port)
        try:
            name = self._place.host.rstrip(".")
            sock: Any = plain if self._context is None else self._context.wrap_socket(plain, server_hostname=name)
        except BaseException:
            plain.close()
            raise
        opened: TimedSocket | TimedTlsSocket = sock
        self._socket = opened
        self._poll = select.poll()
        self._poll.register(opened, select.POLLIN)
        return opened

    def _drop(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

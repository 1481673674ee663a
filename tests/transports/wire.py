"""A server made of raw sockets: it says exactly what a test tells it to, byte by byte if need be."""

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

Say = Callable[[socket.socket, threading.Event], None]


class Request(NamedTuple):
    """One request as it arrived; header names are in lower case."""

    line: str
    headers: dict[str, str]
    body: bytes
    connection: int


class Server:
    """Gives each request the next reply; an exhausted script repeats its last one."""

    def __init__(self, *replies: bytes | Say, tls: ssl.SSLContext | None = None) -> None:
        self.requests: list[Request] = []
        self.peer_certificates: list[object] = []
        self.stop = threading.Event()
        self._replies = list(replies)
        self._tls = tls
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    @property
    def url(self) -> str:
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self.port}"

    def close(self) -> None:
        self.stop.set()
        for each in [self._listener, *self._open]:
            with_quiet(lambda each=each: each.shutdown(socket.SHUT_RDWR))
            each.close()
        for thread in list(self._threads):
            thread.join(5)

    def hang_up(self) -> None:
        """Close every connection that is open, as an idle limit would, and wait until that is done."""
        while self._open:
            each = self._open.pop()
            with_quiet(lambda each=each: each.shutdown(socket.SHUT_RDWR))
            each.close()

    def _accept(self) -> None:
        while not self.stop.is_set():
            try:
                peer, _ = self._listener.accept()
            except OSError:
                return
            self._open.append(peer)
            thread = threading.Thread(target=with_quiet, args=(lambda peer=peer: self._serve(peer),), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, peer: socket.socket) -> None:
        number = len(self._threads) - 1
        if self._tls:
            peer = self._tls.wrap_socket(peer, server_side=True)
            self._open.append(peer)
            self.peer_certificates.append(peer.getpeercert())
        with peer, peer.makefile("rb") as stream:
            while request := read_request(stream, number):
                self.requests.append(request)
                reply = self._replies.pop(0) if len(self._replies) > 1 else self._replies[0]
                if callable(reply):
                    reply(peer, self.stop)
                    return
                peer.sendall(reply)


def read_request(stream, number: int) -> Request | None:
    line = stream.readline().decode().strip()
    if not line:
        return None
    headers = {}
    while field := stream.readline().decode().strip():
        name, _, value = field.partition(":")
        headers[name.lower()] = value.strip()
    return Request(line, headers, stream.read(int(headers.get("content-length", 0))), number)


def with_quiet(act: Callable[[], object]) -> None:
    with suppress(OSError):
        act()


def answer(body: bytes | str = b"{}", status: str = "200 OK", **headers: str) -> bytes:
    """Return a whole answer; underscores in header names become hyphens."""
    content = body.encode() if isinstance(body, str) else body
    fields = {"content-type": "application/json", "content-length": str(len(content)), **headers}
    head = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in fields.items())
    return f"HTTP/1.1 {status}\r\n{head}\r\n".encode() + content


def trickle(start: bytes, piece: bytes = b"a", pause: float = 0.02) -> Say:
    """Say the start at once, then one piece after the other without end."""

    def say(peer: socket.socket, stop: threading.Event) -> None:
        peer.sendall(start)
        while not stop.wait(pause):
            peer.sendall(piece)

    return say


def silence(_: socket.socket, stop: threading.Event) -> None:
    """Say nothing and keep the connection."""
    stop.wait(30)


def hang_up(_: socket.socket, __: threading.Event) -> None:
    """Close the connection without a word."""


@contextmanager
def serving(*replies: bytes | Say, tls: ssl.SSLContext | None = None) -> Iterator[Server]:
    server = Server(*(replies or (answer(),)), tls=tls)
    try:
        yield server
    finally:
        server.close()


@contextmanager
def listening(backlog: int = 5) -> Iterator[int]:
    """Yield a port where connections open but nobody reads or speaks."""
    with socket.create_server(("127.0.0.1", 0), backlog=backlog) as listener:
        yield int(listener.getsockname()[1])


def closed_port() -> int:
    """Return a port where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])

"""The observer's HTTP side: between the sockets of a worker and those of its runtime."""

import http.client
import json
import select
import socket
import ssl
import threading
import time
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from orbit_django.embedded.server import EmbeddedRuntime
from tests.conformance.observer import Answer, Call, Observer, Reply
from tests.transports.wire import Request, read_request

LOOK_SECONDS = 0.02
HOP = {"host", "content-length", "connection"}


class GoneError(Exception):
    """The worker has hung up."""


def raw(status: int, body: str | bytes = b"", **headers: str) -> Reply:
    """Answer with exactly this; underscores in the names of headers become hyphens."""
    content = body.encode() if isinstance(body, str) else body
    return lambda exchange: Answer(status, content, {name.replace("_", "-"): text for name, text in headers.items()})


def text(status: int, body: str) -> Reply:
    """Answer as the runtime does when it has no error object."""
    return raw(status, body, content_type="text/plain; charset=utf-8", x_orbit_api_version="orbit-api/1")


def page(status: int) -> Reply:
    """Answer as a proxy in between does."""
    return raw(status, "<html><body>proxy</body></html>", content_type="text/html")


class HttpExchange:
    """One request that has no answer yet."""

    def __init__(self, face: "HttpFace", peer: socket.socket, request: Request, certificate: Any) -> None:
        method, path, _ = request.line.split(" ", 2)
        self.method, self.path, self.headers, self.body = method, path, request.headers, request.body
        self.connection = request.connection
        names = [part[0] for part in (certificate or {}).get("subject", ())]
        self.common_name = dict(names).get("commonName")
        self._face = face
        self._peer = peer
        self.call = Call(path.rsplit("/", 1)[-1], _decoded(request.body), time.monotonic(), self)

    def forward(self) -> Answer:
        parts = urlsplit(self._face.runtime().url)
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=90)
        try:
            connection.request(
                self.method, self.path, self.body, {n: v for n, v in self.headers.items() if n not in HOP}
            )
            while not select.select([connection.sock], [], [], LOOK_SECONDS)[0]:
                self._check_peer()
                if self.call.name == "poll" and (delivery := self._face.observer.overtaking()):
                    return delivery
            response = connection.getresponse()
            headers = {name.lower(): value for name, value in response.getheaders() if name.lower() not in HOP}
            return Answer(response.status, response.read(), headers)
        finally:
            connection.close()

    def wait(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end and not self._face.stopping.wait(LOOK_SECONDS):
            self._check_peer()

    def _check_peer(self) -> None:
        if isinstance(self._peer, ssl.SSLSocket) or not select.select([self._peer], [], [], 0)[0]:
            return
        if not self._peer.recv(1, socket.MSG_PEEK):
            raise GoneError


class HttpFace:
    """A port that workers take for their runtime."""

    scheme = "http"

    def __init__(self, observer: Observer) -> None:
        self.observer = observer
        self.runtime: Any = EmbeddedRuntime
        self.stopping = threading.Event()
        self.tls: ssl.SSLContext | None = None
        self._port = 0
        self._open: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self.open()

    @property
    def url(self) -> str:
        return f"http{'s' if self.tls else ''}://127.0.0.1:{self._port}"

    def open(self) -> None:
        """Listen, on the same port as before."""
        self.stopping.clear()
        self._listener = socket.create_server(("127.0.0.1", self._port))
        self._port = self._listener.getsockname()[1]
        self._run(self._accept)

    def close(self) -> None:
        """Refuse connections and cut those that are open."""
        self.stopping.set()
        for each in (self._listener, *self._open):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        for thread in self._threads:
            thread.join(5)
        self._threads.clear()

    def _run(self, target: Any, *arguments: Any) -> None:
        thread = threading.Thread(target=target, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                peer, _ = self._listener.accept()
                self._open.add(peer)
                self._run(self._serve, peer)

    def _serve(self, peer: socket.socket) -> None:
        with suppress(OSError, http.client.HTTPException), peer:
            certificate = None
            if self.tls:
                peer = self.tls.wrap_socket(peer, server_side=True)
                certificate = peer.getpeercert()
            with peer, peer.makefile("rb") as stream:
                while request := read_request(stream, id(stream)):
                    if not self._exchange(HttpExchange(self, peer, request, certificate), peer):
                        return

    def _exchange(self, exchange: HttpExchange, peer: socket.socket) -> bool:
        try:
            answer = self.observer.answer(exchange)
        except (GoneError, OSError, http.client.HTTPException):
            exchange.call.left_at = time.monotonic()
            return False
        if answer is not None:
            peer.sendall(_written(answer))
        return answer is not None


def _written(answer: Answer) -> bytes:
    headers = answer.headers | ({} if answer.status == 204 else {"content-length": str(len(answer.body))})
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return (
        f"HTTP/1.1 {answer.status} {http.client.responses.get(answer.status, 'Odd')}\r\n{head}\r\n".encode()
        + answer.body
    )


def _decoded(body: bytes) -> dict[str, Any]:
    try:
        value = json.loads(body)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}

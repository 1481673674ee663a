"""A door in front of a database server that can refuse, hang, cut, and strike a connection at its COMMIT.

A strike waits until its mark, any text of a statement, passes on a connection, and then meets the next COMMIT of that
connection: ``before`` it reaches the server; ``during`` it (the server works on, its client is gone); ``late`` (the
client is gone at once, the server learns of the COMMIT later); or ``after`` it, when only the answer is lost.
"""

import os
import socket
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Self
from urllib.parse import urlsplit

from tests import databases

WAYS = ("before", "during", "late", "after")
HELD = "held"
LATE_SECONDS = 0.7
ANSWER_SECONDS = 10.0
PLAIN = {"postgres": "sslmode=disable&gssencmode=disable", "mariadb": "ssl_mode=DISABLED"}  # or nothing can be read


@dataclass(eq=False)
class Strike:
    """One COMMIT to be met."""

    how: str
    mark: bytes  # empty: the next connection that commits at all
    struck: threading.Event = field(default_factory=threading.Event)
    at: float = 0.0  # when it was, in monotonic seconds
    let_go: threading.Event = field(default_factory=threading.Event)  # ends a hold


class Wire:
    """One connection: what its client says goes up to the server, the answers come down."""

    def __init__(self, proxy: "Proxy", client: socket.socket, server: socket.socket) -> None:
        self._proxy = proxy
        self._client, self._server = client, server
        self._strike: Strike | None = None
        self._is_deaf = False
        self._answered = threading.Event()
        for pump in (self._up, self._down):
            threading.Thread(target=pump, daemon=True).start()

    def cut(self) -> None:
        """End the connection on both sides."""
        hang_up(self._client)
        hang_up(self._server)
        self._answered.set()

    def _up(self) -> None:
        with suppress(OSError):
            while data := self._client.recv(65536):
                self._proxy.flowing.wait()
                self._strike = self._strike or self._proxy.look_for_mark(data)
                if self._strike and b"COMMIT" in data and not self._strike.struck.is_set():
                    self._meet(self._strike, data)
                    if self._strike.how != HELD:
                        break
                    continue
                self._server.sendall(data)
        self._proxy.forget(self)

    def _down(self) -> None:
        with suppress(OSError):
            while data := self._server.recv(65536):
                self._answered.set()
                self._proxy.flowing.wait()
                if not self._is_deaf:
                    self._client.sendall(data)
        self._proxy.forget(self)

    def _meet(self, strike: Strike, commit: bytes) -> None:
        """Lose the connection around this COMMIT."""
        strike.at = time.monotonic()
        strike.struck.set()
        if strike.how == "before":
            return
        if strike.how == HELD:
            strike.let_go.wait()
            self._server.sendall(commit)
            return
        self._is_deaf = True
        self._answered.clear()
        if strike.how in ("late", "during"):
            hang_up(self._client)
        if strike.how == "late":
            self._proxy.ended.wait(LATE_SECONDS)
        self._server.sendall(commit)
        self._answered.wait(ANSWER_SECONDS)


class Proxy:
    """The door; usable as a context manager."""

    def __init__(self, name: str) -> None:
        variable, default = databases.URLS[name]
        self._url = urlsplit(os.environ.get(variable) or default)
        self._variable, self._plain = variable, PLAIN[name]
        self._lock = threading.Lock()
        self._wires: set[Wire] = set()
        self._strikes: list[Strike] = []
        self._listener: socket.socket | None = None
        self.port = 0
        self.flowing = threading.Event()
        self.flowing.set()
        self.ended = threading.Event()

    def __enter__(self) -> Self:
        self.admit()
        return self

    def __exit__(self, *error: object) -> None:
        self.ended.set()
        self.refuse()
        self.flowing.set()

    def environment(self, **options: object) -> dict[str, str]:
        """Return what leads a process through this door; ``options`` are the driver's."""
        user = self._url.netloc.rpartition("@")[0]
        query = "&".join([self._plain, *(f"{name}={value}" for name, value in options.items())])
        url = self._url._replace(netloc=f"{user}@127.0.0.1:{self.port}", query=query)
        return {self._variable: url.geturl()}

    def admit(self) -> None:
        """Listen, on the same port as before."""
        if self._listener is not None:
            return
        listener = self._listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", self.port))
        listener.listen(64)
        self.port = listener.getsockname()[1]
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    def refuse(self) -> None:
        """Cut everything and refuse what comes, until `admit`."""
        listener, self._listener = self._listener, None
        if listener is not None:
            hang_up(listener)
        self.cut()

    def cut(self) -> None:
        """Cut every connection; new ones are taken."""
        with self._lock:
            wires = list(self._wires)
        for wire in wires:
            wire.cut()

    def hang(self) -> None:
        """Let nothing through in either direction, until `release`; connections are taken and get no answer."""
        self.flowing.clear()

    def release(self, *, is_lost: bool = False) -> None:
        """End the hang: what was held back goes on its way, or is lost with its connections."""
        if is_lost:
            self.cut()
        self.flowing.set()

    def strike(self, how: str, mark: str = "") -> Strike:
        """Have the next COMMIT of the connection on which the mark passes struck."""
        assert how in (*WAYS, HELD)
        strike = Strike(how, mark.encode())
        with self._lock:
            self._strikes.append(strike)
        return strike

    def lift(self) -> None:
        """Forget the strikes that found no mark."""
        with self._lock:
            self._strikes.clear()

    def look_for_mark(self, data: bytes) -> Strike | None:
        """Take the strike whose mark is in the data; one without a mark asks for a COMMIT."""
        if not self._strikes:
            return None
        with self._lock:
            found = next((strike for strike in self._strikes if (strike.mark or b"COMMIT") in data), None)
            if found is not None:
                self._strikes.remove(found)
            return found

    def forget(self, wire: Wire) -> None:
        """Drop a connection of which one side has ended."""
        with self._lock:
            self._wires.discard(wire)
        wire.cut()

    def _accept(self, listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                threading.Thread(target=self._connect, args=(client,), daemon=True).start()

    def _connect(self, client: socket.socket) -> None:
        self.flowing.wait()
        try:
            server = socket.create_connection((self._url.hostname, self._url.port), 5)
        except OSError:
            hang_up(client)
            return
        for side in (client, server):
            side.settimeout(None)
            side.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with self._lock:
            self._wires.add(Wire(self, client, server))


def hang_up(side: socket.socket) -> None:
    """Close a socket and wake whoever waits for it."""
    with suppress(OSError):
        side.shutdown(socket.SHUT_RDWR)
    side.close()

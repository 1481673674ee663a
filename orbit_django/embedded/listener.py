"""A listening socket and its open connections; what is said on them is the business of the given handler."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable
from http.server import ThreadingHTTPServer
from typing import Any

from orbit_django.exceptions import OrbitError

_BACKLOG = 128
Handler = Callable[..., Any]  # called as socketserver calls a BaseRequestHandler class


class ClosedError(OrbitError):
    """The connection is closed without an answer: the server stops, or a fault wants it so."""


class Listener(ThreadingHTTPServer):
    """The listening socket and its open connections."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, address: tuple[str, int], handler: Handler, tls: ssl.SSLContext | None) -> None:
        self._tls = tls
        self._open: set[socket.socket] = set()
        self._open_lock = threading.Lock()
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        super().__init__(address, handler, bind_and_activate=False)
        try:
            self.server_bind()  # without listening: connections are refused until the server is activated
        except BaseException:
            self.server_close()
            raise

    def server_bind(self) -> None:
        """Bind without the base class's look-up of the machine's name."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def server_activate(self) -> None:
        """Listen, with room for a burst of workers."""
        self.socket.listen(_BACKLOG)

    def get_request(self) -> tuple[socket.socket, Any]:
        """Take a connection; its TLS handshake is left to its own thread."""
        connection, address = super().get_request()
        if self._tls:
            connection = self._tls.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
        with self._open_lock:
            self._open.add(connection)
        return connection, address

    def shutdown_request(self, request: Any) -> None:
        """Close a connection that is done."""
        with self._open_lock:
            self._open.discard(request)
        super().shutdown_request(request)

    def close_connections(self) -> None:
        """Cut every connection."""
        with self._open_lock:
            connections = tuple(self._open)
        for connection in connections:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue  # already gone

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Let a broken connection end quietly: it is the client's to see."""

"""The total time limit of a call, held at the socket.

The timeouts of ``requests`` bound each single wait, so a server that sends one byte now and then could hold a
thread for ever. Here every wait on a socket gets only what is left of the call that its thread is making.
Resolving a name is the one wait that the operating system does not let us bound.
"""

from __future__ import annotations

import socket
import ssl
import struct
import sys
import threading
from typing import Any

from requests.adapters import HTTPAdapter
from urllib3 import HTTPConnectionPool, HTTPSConnectionPool, PoolManager, ProxyManager
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import ConnectTimeoutError, NameResolutionError, NewConnectionError

from orbit_django.clock import SystemClock

_CLOCK = SystemClock()
TIMEVAL = struct.Struct("@ll")  # seconds, microseconds
CAN_KEEP_LIMITS = hasattr(socket, "MSG_DONTWAIT") and sys.maxsize > 2**32  # where a time of the system is two longs


class CallLimit(threading.local):
    """What is left of the one call that the current thread is making, and how far that call has come."""

    connected_by = float("inf")  # monotonic seconds
    ended_by = float("inf")
    is_sending = False  # once true, the runtime may have seen the request

    def begin(self, connect_seconds: float, total_seconds: float) -> None:
        """Start the time of a new call; connecting includes the TLS handshake."""
        now = _CLOCK.monotonic()
        self.connected_by = now + min(connect_seconds, total_seconds)
        self.ended_by = now + total_seconds
        self.is_sending = False

    def remaining(self) -> float:
        """Return the seconds that the next wait may take; raise TimeoutError when none are left."""
        seconds = (self.ended_by if self.is_sending else self.connected_by) - _CLOCK.monotonic()
        if seconds <= 0:
            raise TimeoutError("the time of the call is over")
        return seconds


CALL = CallLimit()


class _Timed:
    """The waiting methods of a socket, each bounded by what is left of the call."""

    def recv(self, *args: Any) -> Any:
        return self._bounded().recv(*args)

    def recv_into(self, *args: Any) -> Any:
        return self._bounded().recv_into(*args)

    def send(self, *args: Any) -> Any:
        return self._bounded().send(*args)

    def sendall(self, *args: Any) -> Any:
        return self._bounded().sendall(*args)

    def put(self, content: bytes) -> None:
        """Send all of it."""
        self.sendall(content)

    def take(self, size: int) -> bytes:
        """Wait for some bytes, at most so many; none at the end."""
        return bytes(self.recv(size))

    def _bounded(self) -> Any:
        self.settimeout(CALL.remaining())  # type: ignore[attr-defined]  # mixed into a socket
        return super()


class TimedSocket(_Timed, socket.socket):
    """A plain socket that keeps to the limit of the call.

    Each call of the system lets another thread have the interpreter, and takes it back later than it could. So where
    the system can keep the limit itself, one call sends and one receives, instead of three and three.
    """

    def put(self, content: bytes) -> None:
        """Send all of it; there nearly always is room for it, so that is not asked first."""
        if not CAN_KEEP_LIMITS:
            super().put(content)
            return
        self._leave_to_system()
        try:
            count = socket.socket.send(self, content, socket.MSG_DONTWAIT)
        except BlockingIOError:
            count = 0
        if count < len(content):
            self.sendall(memoryview(content)[count:])

    def take(self, size: int) -> bytes:
        """Wait for some bytes, at most so many; none at the end."""
        if not CAN_KEEP_LIMITS:
            return super().take(size)
        limit = TIMEVAL.pack(*divmod(int(CALL.remaining() * 1e6) + 1, 1_000_000))
        self.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
        self._leave_to_system()
        try:
            return socket.socket.recv(self, size)
        except BlockingIOError:
            raise TimeoutError("the time of the call is over") from None

    def _leave_to_system(self) -> None:
        if self.gettimeout() is not None:  # setting it is a call of the system as well
            self.settimeout(None)


class TimedTlsSocket(_Timed, ssl.SSLSocket):
    """A TLS socket that keeps to the limit of the call."""

    def do_handshake(self, block: bool = False) -> None:
        """Shake hands within the time left for connecting."""
        self.settimeout(CALL.remaining())
        super().do_handshake(block)


def dial(host: str, port: int) -> TimedSocket:
    """Connect to the first address of a host that answers, all of them within one limit; raise OSError."""
    trouble: OSError = OSError("the name has no address")
    for family, kind, protocol, _, address in _addresses(host, port):
        dialled = TimedSocket(family, kind, protocol)
        try:
            dialled.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            dialled.settimeout(CALL.remaining())
            dialled.connect(address)
        except OSError as error:
            dialled.close()
            trouble = error
        else:
            return dialled
    raise trouble


def _addresses(host: str, port: int) -> list[Any]:
    try:
        return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except UnicodeError:  # a label that is empty or too long
        raise socket.gaierror(socket.EAI_NONAME, "not a host name") from None


class _Dialling:
    """What both kinds of connection share: how they connect, and when the request begins to leave."""

    sock: Any
    host: str
    port: int
    _dns_host: str

    def _new_conn(self) -> socket.socket:
        """Connect to the first address that answers, all of them within one limit."""
        try:
            return dial(self._dns_host.strip("[]"), self.port)
        except socket.gaierror as error:
            raise NameResolutionError(self.host, self, error) from error  # type: ignore[arg-type]  # mixed in
        except TimeoutError as error:
            raise ConnectTimeoutError(self, "no connection in time") from error
        except OSError as error:
            raise NewConnectionError(self, "no connection") from error  # type: ignore[arg-type]  # mixed in

    def request(self, *args: Any, **options: Any) -> None:
        """Connect first, so that a failure to connect is known to be one, then send."""
        if self.sock is None:
            self.connect()  # type: ignore[attr-defined]  # mixed into a connection
        CALL.is_sending = True
        super().request(*args, **options)  # type: ignore[misc]  # mixed into a connection


class TimedConnection(_Dialling, HTTPConnection):
    """A connection over TimedSocket."""


class TimedTlsConnection(_Dialling, HTTPSConnection):
    """A connection over TimedTlsSocket."""


class _Pool(HTTPConnectionPool):
    ConnectionCls = TimedConnection


class _TlsPool(HTTPSConnectionPool):
    ConnectionCls = TimedTlsConnection


class TimedAdapter(HTTPAdapter):
    """An adapter for one thread and one server: a single kept connection, no retries, the given TLS context."""

    def __init__(self, context: ssl.SSLContext | None, proxy: str | None) -> None:
        self._context = context
        self._proxy = proxy
        super().__init__(max_retries=0)

    def init_poolmanager(self, *_: Any, **__: Any) -> None:
        """Make the one pool, of our connections; called by the base class."""
        if self._proxy:
            headers = self.proxy_headers(self._proxy)
            self.poolmanager = ProxyManager(
                self._proxy,
                proxy_headers=headers,
                proxy_ssl_context=self._context,
                num_pools=1,
                maxsize=1,
                ssl_context=self._context,
            )
        else:
            self.poolmanager = PoolManager(num_pools=1, maxsize=1, ssl_context=self._context)
        self.poolmanager.pool_classes_by_scheme = {"http": _Pool, "https": _TlsPool}

    def get_connection_with_tls_context(self, request: Any, *_: Any, **__: Any) -> HTTPConnectionPool:
        """Leave out every TLS option of ``requests``: the context has them all, and it always verifies."""
        pool: HTTPConnectionPool = self.poolmanager.connection_from_url(request.url)
        return pool

    def cert_verify(self, conn: Any, url: Any, verify: Any, cert: Any) -> None:
        """Add no certificate authority to those of the context."""

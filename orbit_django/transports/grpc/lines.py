"""The connections of the gRPC binding: opened when needed, replaced when the certificates change.

Each purpose has lines of its own, so that no heartbeat and no report waits for the polls: a server lets only so many
calls share a connection. Nothing is taken from the environment, and nothing is repeated by the library.
"""

from __future__ import annotations

import logging
import ssl
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import grpc

from orbit_django.logs import SteadyLogger
from orbit_django.protocol import SDK
from orbit_django.transports.answers import MAX_BODY_BYTES
from orbit_django.transports.tls import TlsFiles, authorities

logger = SteadyLogger(logging.getLogger(__name__))

CONNECT_MS = 5_000
STREAMS = 64  # calls that share a connection; servers commonly allow a hundred
OPTIONS: list[tuple[str, object]] = [
    ("grpc.primary_user_agent", SDK),
    ("grpc.use_local_subchannel_pool", 1),  # else lines to one address would share a connection
    ("grpc.enable_http_proxy", 0),  # the environment names proxies, too
    ("grpc.service_config_disable_resolution", 1),  # else a record of the name server could ask for repetitions
    ("grpc.enable_retries", 0),
    ("grpc.max_receive_message_length", MAX_BODY_BYTES),
    ("grpc.max_send_message_length", -1),  # measured before the commit
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.min_reconnect_backoff_ms", CONNECT_MS),  # the time limit of connecting, whatever its name says
    ("grpc.max_reconnect_backoff_ms", 2_000),  # the worker has a pace of its own
    ("grpc.keepalive_time_ms", 30_000),  # load balancers cut what is silent for a minute, and a poll may last one
    ("grpc.keepalive_timeout_ms", 10_000),
]

Method = Callable[..., bytes]


@dataclass(eq=False, slots=True)
class Line:
    """One connection with the calls that it carries."""

    channel: grpc.Channel
    methods: dict[str, Method] = field(default_factory=dict)
    open: int = 0
    is_retired: bool = False  # closed once its last call has ended

    def method(self, path: str) -> Method:
        """Return the call of a method, which takes and returns bytes."""
        if path not in self.methods:
            self.methods[path] = self.channel.unary_unary(path, None, None)
        return self.methods[path]


class TlsSide:
    """The certificates of the settings, as this library takes them; they are checked by TlsFiles."""

    def __init__(self, ca_cert: str | None, client_cert: str | None, client_key: str | None) -> None:
        self._files = TlsFiles(ca_cert, client_cert, client_key)
        self._paths = (ca_cert, client_cert, client_key)
        self._context: ssl.SSLContext | None = None
        self.credentials: grpc.ChannelCredentials | None = None

    def has_changed(self) -> bool:
        """Read the files when there is something new in them; return whether that changed the credentials."""
        context = self._files.context()
        if context is self._context:
            return False
        ca_cert, client_cert, client_key = self._paths
        try:
            chain = Path(client_cert).read_bytes() if client_cert else None
            key = Path(client_key).read_bytes() if client_key else chain
            credentials = grpc.ssl_channel_credentials(authorities(ca_cert), key, chain)
        except OSError as error:
            if self.credentials is None:
                raise
            logger.warning("changed certificate files are not usable yet", extra={"reason": str(error)})
            return False
        self._context, self.credentials = context, credentials
        return True


class Lines:
    """Connections to one address; safe to use from many threads."""

    def __init__(self, target: str, tls: TlsSide | None) -> None:
        self.target = target
        self._tls = tls
        self._lock = threading.Lock()
        self._lines: dict[str, list[Line]] = defaultdict(list)

    @contextmanager
    def use(self, purpose: str) -> Iterator[Line]:
        """Lend a line for one call."""
        with self._lock:
            if self._tls and self._tls.has_changed():
                self._retire()
            line = next((line for line in self._lines[purpose] if line.open < STREAMS), None)
            if line is None:
                line = Line(self._open())
                self._lines[purpose].append(line)
            line.open += 1
        try:
            yield line
        finally:
            with self._lock:
                line.open -= 1
                is_over = line.is_retired and not line.open
            if is_over:
                line.channel.close()

    def close(self) -> None:
        """Break off every call and let go of every connection; a later call opens a new one."""
        with self._lock:
            lines = [line for lines in self._lines.values() for line in lines]
            self._lines.clear()
        for line in lines:
            line.channel.close()

    def _open(self) -> grpc.Channel:
        if self._tls is None or self._tls.credentials is None:
            return grpc.insecure_channel(self.target, OPTIONS)
        return grpc.secure_channel(self.target, self._tls.credentials, OPTIONS)

    def _retire(self) -> None:
        """Let what is on its way end with the old certificates."""
        for lines in self._lines.values():
            for line in lines:
                line.is_retired = True
                if not line.open:
                    line.channel.close()
        self._lines.clear()

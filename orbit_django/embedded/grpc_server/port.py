"""The address of the gRPC side: held, opened and closed as that of the HTTP side."""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc

from orbit_django.exceptions import ConfigurationError

MOST_THREADS = 2_000  # calls at the same time, most of them polls that wait
MOST_BYTES = 64 * 1024 * 1024  # what is read, to be refused in words when it is above the limit
OPTIONS = [
    ("grpc.so_reuseport", 0),
    ("grpc.max_receive_message_length", MOST_BYTES),
    ("grpc.max_send_message_length", -1),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 5_000),
]

Handler = Any  # grpc.GenericRpcHandler, whose stubs are generic and whose class is not
PemFiles = tuple[str, str | None, str | None]  # certificate, its key, and the CA of client certificates


class GrpcPort:
    """An address. While it is held but not open, connections are refused and nobody else gets it.

    ``files`` are those of TLS; with a CA among them a client certificate is required, unlike over HTTP: the library
    can only insist on one, or not ask.
    """

    def __init__(self, name: str, number: int, files: PemFiles | None, handler: Handler) -> None:
        self._name = name
        self._number = number
        self._credentials = server_credentials(*files) if files else None
        self._handler = handler
        self._holder: socket.socket | None = None
        self._server: grpc.Server | None = None
        self._threads: ThreadPoolExecutor | None = None

    @property
    def target(self) -> str:
        """Where clients find it; the number is final once the port has been held."""
        return f"[{self._name}]:{self._number}" if ":" in self._name else f"{self._name}:{self._number}"

    def hold(self) -> None:
        """Take the address, unless that has been done; raises ConfigurationError when it cannot be had."""
        if self._holder is not None:
            return
        holder = socket.socket(socket.AF_INET6 if ":" in self._name else socket.AF_INET)
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # the server binds it again, beside this one
        try:
            holder.bind((self._name, self._number))
        except (OSError, OverflowError) as error:
            holder.close()
            said = getattr(error, "strerror", None) or error
            raise ConfigurationError(f"cannot listen on {self.target}: {said}; give --grpc-port") from None
        self._holder, self._number = holder, holder.getsockname()[1]

    def open(self) -> None:
        """Answer from now on; raises ConfigurationError when somebody else listens there."""
        self.hold()
        self._threads = ThreadPoolExecutor(MOST_THREADS, "orbit-runtime-grpc")
        server = grpc.server(self._threads, [self._handler], options=OPTIONS)
        try:
            if self._credentials is None:
                server.add_insecure_port(self.target)
            else:
                server.add_secure_port(self.target, self._credentials)
        except RuntimeError:
            self._threads.shutdown(wait=False)
            raise ConfigurationError(
                f"cannot listen on {self.target}: the address is in use; give --grpc-port"
            ) from None
        server.start()
        self._server = server

    def close(self) -> None:
        """Let the address go and break off every call, as a process that ends would."""
        if self._server is not None and self._threads is not None:
            self._server.stop(None).wait()
            self._threads.shutdown(wait=False)
        if self._holder is not None:
            self._holder.close()
        self._holder = self._server = self._threads = None


def server_credentials(certificate: str, key: str | None, client_ca: str | None) -> grpc.ServerCredentials:
    """Return what TLS takes of PEM files: a certificate, its key, and the CA whose client certificates are required."""
    chain = Path(certificate).read_bytes()
    pair = (Path(key).read_bytes() if key else chain, chain)
    authority = Path(client_ca).read_bytes() if client_ca else None
    return grpc.ssl_server_credentials([pair], authority, authority is not None)

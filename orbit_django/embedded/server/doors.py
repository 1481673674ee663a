"""The addresses of a runtime, held, opened and closed together: HTTP always, gRPC when it was asked for."""

from __future__ import annotations

import ssl
from functools import partial
from typing import Protocol

from orbit_django.embedded.answers import Host
from orbit_django.embedded.port import Port
from orbit_django.embedded.server.handler import Connection
from orbit_django.embedded.server.passage import outcome
from orbit_django.embedded.server.tls import ServerContext
from orbit_django.exceptions import ConfigurationError


class GrpcDoor(Protocol):
    """What is needed of the gRPC side, which is imported only when it is asked for."""

    @property
    def target(self) -> str:
        """Where clients find it."""
        ...

    def hold(self) -> None:
        """Take the address."""
        ...

    def open(self) -> None:
        """Answer from now on."""
        ...

    def close(self) -> None:
        """Let the address go."""
        ...


class Doors:
    """All addresses; without a ``grpc_number`` the one of HTTP."""

    def __init__(
        self, *, host: Host, name: str, number: int, grpc_number: int | None, tls: ssl.SSLContext | None
    ) -> None:
        self._http = Port(name, number, tls, partial(Connection, host=host))
        self._grpc = None if grpc_number is None else _grpc(host, name, grpc_number, tls)

    @property
    def url(self) -> str:
        """Where clients find the HTTP side."""
        return self._http.url

    @property
    def grpc_target(self) -> str | None:
        """Where clients find the gRPC side, as ``host:port``; None when there is none."""
        return self._grpc.target if self._grpc else None

    def hold(self) -> None:
        """Take the addresses, as far as that has not been done; raises ConfigurationError."""
        self._http.hold()
        if self._grpc:
            self._grpc.hold()

    def open(self) -> None:
        """Answer from now on."""
        if self._grpc:
            self._grpc.open()
        self._http.open()

    def close(self) -> None:
        """Let the addresses go and cut every connection, as a process that ends would."""
        self._http.close()
        if self._grpc:
            self._grpc.close()


def _grpc(host: Host, name: str, number: int, tls: ssl.SSLContext | None) -> GrpcDoor:
    try:
        from orbit_django.embedded.grpc_server import GrpcPort, handlers
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in ("grpc", "google"):
            raise
        raise ConfigurationError(
            "--grpc-port: serving gRPC needs packages that are not installed: pip install 'orbit_django[grpc]'"
        ) from None
    if tls is not None and not isinstance(tls, ServerContext):
        raise ConfigurationError("gRPC over TLS needs a context of server_context, which knows its files")
    return GrpcPort(name, number, tls.files if tls else None, handlers(host, outcome))

"""The gRPC binding, which needs the extra ``grpc``; nothing else here imports it before it is asked for."""

from __future__ import annotations

from urllib.parse import urlsplit

from orbit_django.conf import OrbitSettings
from orbit_django.conf.addresses import is_loopback, split_target
from orbit_django.exceptions import ConfigurationError
from orbit_django.transports.grpc.binding import GrpcTransport
from orbit_django.transports.grpc.lines import TlsSide

__all__ = ["GrpcTransport", "open_grpc"]


def open_grpc(settings: OrbitSettings) -> GrpcTransport:
    """Return the binding that the settings ask for; it is encrypted when SERVER is https (O163).

    Raises ConfigurationError: there is no address that a runtime would serve gRPC at unless it was told (O160), and a
    result is kept for the runtime at SERVER, so that must be the same one.
    """
    if not settings.grpc_target:
        raise ConfigurationError("GRPC_TARGET: TRANSPORT is 'grpc', which needs the runtime's gRPC address, host:port")
    if settings.proxy:
        raise ConfigurationError("PROXY: the gRPC binding goes through no proxy; unset it, or use TRANSPORT 'http'")
    parts = urlsplit(settings.server)
    if is_loopback(parts.hostname or "") and not is_loopback(split_target(settings.grpc_target)[0]):
        raise ConfigurationError(
            f"GRPC_TARGET: {settings.grpc_target} is another machine than that of SERVER, {settings.server}; set SERVER"
            " to the URL of the same runtime: results are kept for it, and starts go there"
        )
    is_tls = parts.scheme == "https"
    return GrpcTransport(
        settings.grpc_target,
        server=settings.server,
        credential=lambda: settings.credential,
        max_body_bytes=settings.max_body_bytes,
        tls=TlsSide(settings.ca_cert, settings.client_cert, settings.client_key) if is_tls else None,
    )

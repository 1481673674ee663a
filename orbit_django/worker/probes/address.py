"""Where the probes listen."""

from __future__ import annotations

import os
import socket

from orbit_django.exceptions import ConfigurationError


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens there; raise ConfigurationError when it cannot be had."""
    shown = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        return socket.create_server(address[:2], family=family, backlog=64)
    except (OSError, UnicodeError) as error:
        raise ConfigurationError(f"--health: cannot listen on {shown}: {_why(error)}") from None


def _why(error: OSError | UnicodeError) -> str:
    if not isinstance(error, OSError) or error.errno is None:
        return "it is no host name"
    return str(error.strerror) if isinstance(error, socket.gaierror) else os.strerror(error.errno)

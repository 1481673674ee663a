"""What a URL says of the machine behind it. Nothing here looks anything up."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

HTTP_PORT = 80
LOOPBACK = "127.0.0.1"


def is_loopback(host: str) -> bool:
    """Return whether a name or an address surely is this machine; a name that begins like one is not."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def loopback_of(url: str) -> tuple[str, int] | None:
    """Return host and port of a plain http URL that leads to this machine; None for any other."""
    parts = urlsplit(url)
    if parts.scheme != "http" or not parts.hostname or not is_loopback(parts.hostname):
        return None
    return parts.hostname, parts.port or HTTP_PORT


def split_target(target: str) -> tuple[str, int]:
    """Return host and port of ``HOST:PORT`` or ``[IPV6]:PORT``; raise ValueError when it is none."""
    parts = urlsplit(f"//{target}")
    if not parts.hostname or not parts.port or parts.netloc != target or "@" in target or set(target) & set(' \\"<>,'):
        raise ValueError("expected host:port, as the runtime was given it by --grpc-addr")
    return parts.hostname, parts.port


def read_listening(value: Any) -> tuple[str, int]:
    """Return host and port of ``[HOST:]PORT``, by default on this machine alone; raise ValueError when it is none."""
    expected = f"expected PORT, HOST:PORT or [IPV6]:PORT, found {str(value)[:100]!r}"
    host, colon, port = str(value).strip().rpartition(":")
    is_bracketed = host.startswith("[") and host.endswith("]")
    if (colon and not host) or (":" in host and not is_bracketed) or host == "[]":
        raise ValueError(expected)
    if not (port.isascii() and port.isdigit() and len(port) < 6 and 0 < int(port) < 65_536):
        raise ValueError(expected)
    return (host.strip("[]") if is_bracketed else host) or LOOPBACK, int(port)

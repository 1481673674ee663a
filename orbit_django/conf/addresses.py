"""What a URL says of the machine behind it. Nothing here looks anything up."""

from __future__ import annotations

from ipaddress import ip_address
from urllib.parse import urlsplit

HTTP_PORT = 80


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

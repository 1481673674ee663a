"""The server's side of TLS (O015, O034, O040)."""

from __future__ import annotations

import ssl

from orbit_django.exceptions import ConfigurationError


class ServerContext(ssl.SSLContext):
    """A context that remembers its files, for a side that takes no context: certificate, key, CA of clients."""

    files: tuple[str, str | None, str | None]


def server_context(cert: str | None, key: str | None, client_ca: str | None) -> ServerContext | None:
    """Return the context for the files, None when there are none; raises ConfigurationError naming the file at fault.

    A client certificate is asked for when ``client_ca`` is given, and not required: a token does as well.
    """
    if not cert:
        if key or client_ca:
            raise ConfigurationError("--tls-key and --tls-client-ca need --tls-cert")
        return None
    context = ServerContext(ssl.PROTOCOL_TLS_SERVER)
    context.files = (cert, key, client_ca)
    try:
        context.load_cert_chain(cert, key)
    except (OSError, ssl.SSLError) as error:
        raise ConfigurationError(f"--tls-cert {cert}, --tls-key {key or cert}: {error}") from None
    if client_ca:
        try:
            context.load_verify_locations(client_ca)
        except (OSError, ssl.SSLError) as error:
            raise ConfigurationError(f"--tls-client-ca {client_ca}: {error}") from None
        context.verify_mode = ssl.CERT_OPTIONAL
    return context

"""The address at which a server answers: held, opened and closed, without losing it to others in between."""

from __future__ import annotations

import errno
import ssl
import threading

from orbit_django.embedded.listener import Handler, Listener
from orbit_django.exceptions import ConfigurationError


class Port:
    """An address. While it is held but not open, connections are refused and nobody else gets it."""

    def __init__(self, name: str, number: int, tls: ssl.SSLContext | None, handler: Handler) -> None:
        self._name = name
        self._number = number
        self._tls = tls
        self._handler = handler
        self._listener: Listener | None = None
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        """Where clients find it; the number is final once the port has been held."""
        scheme = "https" if self._tls else "http"
        return (
            f"{scheme}://[{self._name}]:{self._number}"
            if ":" in self._name
            else f"{scheme}://{self._name}:{self._number}"
        )

    def hold(self) -> Listener:
        """Take the address, unless that has been done; raises ConfigurationError when it cannot be had."""
        if self._listener is None:
            try:
                self._listener = Listener((self._name, self._number), self._handler, self._tls)
            except (OSError, OverflowError) as error:
                raise ConfigurationError(_no_port(self._name, self._number, error)) from None
            self._number = self._listener.server_port
        return self._listener

    def open(self) -> None:
        """Answer from now on."""
        listener = self.hold()
        listener.server_activate()
        self._thread = threading.Thread(target=listener.serve_forever, args=(0.05,), name="orbit-runtime", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Let the address go and cut every connection, as a process that ends would."""
        if self._listener is None:
            return
        if self._thread is not None:
            self._listener.shutdown()
            self._thread.join()
        self._listener.server_close()
        self._listener.close_connections()
        self._listener = self._thread = None


def _no_port(name: str, number: int, error: OSError | OverflowError) -> str:
    said = getattr(error, "strerror", None) or error
    is_about_port = getattr(error, "errno", None) in {errno.EADDRINUSE, errno.EACCES}
    return f"cannot listen on {name}:{number}: {said}" + ("; give --port" if is_about_port else "")

"""A runtime that says whatever a test wants, call by call, and fronts that do not even listen."""

import os
import socket
import threading
import time
from contextlib import suppress

from orbit_django.embedded.runtime import Runtime
from tests.processes import ListeningFaults

IS_LONG = os.environ.get("ORBIT_TEST_LONG") == "1"

Said = tuple[int, str, bytes]  # status, content type, body

UNKNOWN_SESSION = b'{"error": {"code": "UNKNOWN_SESSION", "message": "unknown or expired worker session"}}'
JSON = "application/json"


def said(status: int, body: bytes = b"", content_type: str = JSON) -> Said:
    return status, content_type, body


def refusal(status: int, code: str) -> Said:
    return said(status, f'{{"error": {{"code": "{code}", "message": "no"}}}}'.encode())


def redirect(location: str) -> Said:
    """Return a redirect; its header travels with the type, since the embedded runtime has no other door for it."""
    return said(307, b"", f"text/html\r\nlocation: {location}")


class Saying(ListeningFaults):
    """Faults that answer a call, or every one with ``*``, with what a test says instead of processing it."""

    def __init__(self) -> None:
        super().__init__()
        self.says: dict[str, Said] = {}

    def before(self, call: str, runtime: Runtime) -> Said | None:
        struck = super().before(call, runtime)
        return struck or self.says.get(call) or self.says.get("*")


class HangUp:
    """A front that takes every connection and closes it without a word; counts them."""

    def __init__(self, port: int) -> None:
        self.times: list[float] = []
        self._listener = socket.create_server(("127.0.0.1", port), backlog=64)
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join(5)
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                self._listener.accept()[0].close()
                self.times.append(time.monotonic())

"""Calls that wait, and the moment at which they do."""

import threading
import time
from typing import Any

from orbit_django.embedded.server import EmbeddedRuntime


class Background:
    """A call in another thread."""

    def __init__(self, call: Any, *args: Any) -> None:
        self.result: Any = None
        self.thread = threading.Thread(target=self._run, args=(call, *args))
        self.thread.start()

    def _run(self, call: Any, *args: Any) -> None:
        try:
            self.result = call(*args)
        except OSError as error:
            self.result = error

    def join(self) -> Any:
        self.thread.join(10)
        assert not self.thread.is_alive()
        return self.result


def waiting(runtime: EmbeddedRuntime, count: int = 1) -> None:
    """Return once so many requests wait inside the runtime."""
    end = time.monotonic() + 10
    while len(runtime._waiters._waiting) != count:
        assert time.monotonic() < end, "nobody waits"
        threading.Event().wait(0.002)

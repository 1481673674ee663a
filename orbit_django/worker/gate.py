"""Whether the database can be reached, as the threads of this process found it.

Closed, no loop asks for work: what is taken could not be recorded. Nobody asks the database for this alone: the
relay's regular look opens the gate again.
"""

from __future__ import annotations

import logging
import threading

from orbit_django.logs import SteadyLogger

logger = SteadyLogger(logging.getLogger(__name__))


class DatabaseGate:
    """Open while the database answers."""

    def __init__(self) -> None:
        self._open = threading.Event()
        self._open.set()

    @property
    def is_open(self) -> bool:
        """Return whether the database answered when it was last asked."""
        return self._open.is_set()

    def close(self, error: BaseException) -> None:
        """Note that the database cannot be reached."""
        if self._open.is_set():
            logger.error("the database cannot be reached; no work is taken meanwhile", extra={"error": repr(error)})
            self._open.clear()

    def open(self) -> None:
        """Note that the database answers."""
        if not self._open.is_set():
            logger.warning("the database is back")
            self._open.set()

    def wait(self, seconds: float) -> bool:
        """Wait until open, at most that long; return whether it is."""
        return self._open.is_set() or self._open.wait(seconds)  # the latter takes a lock

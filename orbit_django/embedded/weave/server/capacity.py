"""How much the server does at once; what is beyond it is refused before anything has happened."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from orbit_django.embedded.weave.problems import at_capacity


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one process, and how long each of its transactions takes."""

    executing: int = 2  # requests that execute
    bodies: int = 12  # requests whose body is held
    lock_seconds: float = 0.25  # patience with the lock of a project
    work_seconds: float = 0.01  # the lock of the project is held so long


ORDINARY = Limits()
RARE = Limits(work_seconds=0.0)  # refusals are possible, but seldom
FREQUENT = Limits(work_seconds=0.12)  # a few workers are enough to be refused again and again
LEVELS = {"ordinary": ORDINARY, "rare": RARE, "frequent": FREQUENT}


class Places:
    """A number of places that nobody waits for."""

    def __init__(self, code: str) -> None:
        self._code = code
        self._lock = threading.Lock()
        self._taken = 0

    @contextmanager
    def take(self, most: int) -> Iterator[None]:
        """Take a place, or refuse."""
        with self._lock:
            if self._taken >= most:
                raise at_capacity(self._code)
            self._taken += 1
        try:
            yield
        finally:
            with self._lock:
                self._taken -= 1


class ProjectLocks:
    """One lock for each project; who does not get it in time is refused."""

    def __init__(self) -> None:
        self._locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)

    @contextmanager
    def hold(self, project: str, seconds: float) -> Iterator[None]:
        """Hold the lock of a project, waited for this long at most."""
        lock = self._locks[project]
        if not lock.acquire(timeout=seconds):
            raise at_capacity(retry_after=None)
        try:
            yield
        finally:
            lock.release()

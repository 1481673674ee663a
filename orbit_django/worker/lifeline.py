"""A worker process's end of the socket to its supervisor: orders come in, reports go out, silence means orphaned.

Each byte that comes in is one order to end. What goes out are lines, a word and a JSON text: ``report`` (what the
process says of itself, once a second), ``task`` (it was given the first one), ``mistake`` (why it must not be started
again), ``ended`` (an orderly end), and ``files`` (which modules it has loaded, where changes are watched).
The supervisor's end is open in the supervisor alone, so that the kernel closes it whatever the supervisor dies of.
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Callable
from pathlib import Path

from orbit_django.exceptions import ConfigurationError
from orbit_django.worker.interpreter import module_files
from orbit_django.worker.runner import LoopThread, StoppedError
from orbit_django.worker.stops import StopRequests

REPORT_SECONDS = 1.0
LOCK_SECONDS = 0.1  # how long a task waits for a report on its way


class Lifeline:
    """The socket that a supervisor handed to this process, by its file descriptor.

    Raises ConfigurationError when there is no such socket.
    """

    name = "lifeline"

    def __init__(self, descriptor: int) -> None:
        self._socket = _connected(descriptor)
        self._socket.set_inheritable(False)  # processes that handlers start have no part in it
        self._lock = threading.Lock()  # no line begins inside another one
        self._report: Callable[[], str] = lambda: "{}"
        self._is_reloading = False
        self._told: frozenset[Path] = frozenset()  # files that the supervisor knows of

    def start(
        self, stops: StopRequests, report: Callable[[], str] | None = None, *, is_reloading: bool = False
    ) -> None:
        """Begin to listen, and to send once a second what ``report`` returns: one JSON object on one line.

        With ``is_reloading`` the files of the project's modules are sent as well, as far as they were not yet.
        """
        self._report = report or self._report
        self._is_reloading = is_reloading
        stops.supervised()
        threading.Thread(target=self._listen, args=(stops,), name="orbit-supervisor", daemon=True).start()
        LoopThread(self, threading.Event()).start()

    def step(self) -> float:
        """Send one report; return the seconds until the next."""
        if self._is_reloading:
            self._tell_files()
        if not self._send("report", self._report()):
            raise StoppedError
        return REPORT_SECONDS

    def received(self) -> None:
        """Tell that a task has come, unless that would take a while: whatever this process dies of, it got there."""
        if self._lock.acquire(timeout=LOCK_SECONDS):
            try:
                self._socket.send(b"task {}\n", socket.MSG_DONTWAIT)
            except OSError:
                pass  # a full socket, whose reader does nothing at all, or one that is gone
            finally:
                self._lock.release()

    def mistake(self, text: str) -> None:
        """Tell why this process cannot work, which no restart would change."""
        self._send("mistake", json.dumps(text))

    def ended(self) -> None:
        """Report a last time, and tell that this process ends in order."""
        self._send("report", self._report())
        self._send("ended", "{}")

    def close(self) -> None:
        """Let go of the socket, for whoever does not end with its process."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # which wakes the thread that listens
        self._socket.close()

    def _tell_files(self) -> None:
        found = module_files()
        if new := found - self._told:
            self._send("files", json.dumps(sorted(map(str, new))))
            self._told = found

    def _send(self, word: str, text: str) -> bool:
        try:
            with self._lock:
                self._socket.sendall(f"{word} {text}\n".encode())
        except OSError:
            return False  # the listening thread knows by now
        return True

    def _listen(self, stops: StopRequests) -> None:
        with contextlib.suppress(OSError):
            while orders := self._socket.recv(1):
                for _ in orders:
                    stops.ordered()
        stops.orphaned()


def _connected(descriptor: int) -> socket.socket:
    try:
        found = socket.socket(fileno=descriptor)
    except OSError:
        raise ConfigurationError(f"--lifeline: {descriptor} is no socket of a supervisor") from None
    try:
        found.getpeername()
    except OSError:
        found.detach()  # it is somebody else's
        raise ConfigurationError(f"--lifeline: {descriptor} is no socket of a supervisor") from None
    return found

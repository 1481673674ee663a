"""How urgently a worker process is asked to end, by signals and by its supervisor."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from types import FrameType

SHELLS = ("sh", "dash", "bash", "ash", "busybox", "ksh", "zsh")


class StopRequests:
    """Counts who asks: ``level`` is 0 while nobody does, 1 for an orderly end, 2 or more for an end at once.

    A process on its own counts its signals. A supervised one takes its orders from the supervisor, and signals of its
    own ask for no more than an orderly end: an init system that signals every process of a service would otherwise be
    counted twice, and hurry handlers that have time. When the supervisor is gone, its signals count again.
    """

    def __init__(self) -> None:
        self._signals = 0  # written by the main thread alone
        self._orders = 0  # written by the thread that listens to the supervisor
        self._uncounted: int | None = 0  # signals that are part of the first request; None: as many as come
        self._is_orphan = False

    @property
    def level(self) -> int:
        """Return how often the end was asked for."""
        if self._uncounted is None:
            return max(self._orders, min(self._signals, 1))
        return int(self._is_orphan) + max(self._orders - int(self._is_orphan), 0) + self._signals - self._uncounted

    def signalled(self) -> None:
        """Count a signal; nothing else, for a handler of signals must not touch a lock."""
        self._signals += 1

    def supervised(self) -> None:
        """Take orders from a supervisor from now on."""
        self._uncounted = None

    def ordered(self) -> None:
        """Count an order of the supervisor."""
        self._orders += 1

    def orphaned(self) -> None:
        """Note that the supervisor is gone, which asks for an orderly end."""
        self._is_orphan = True
        self._uncounted = self._signals


@contextmanager
def watching_signals(on_signal: Callable[[], object]) -> Iterator[None]:
    """Call that for SIGTERM and SIGINT; in a thread that cannot watch them somebody else has to."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def signalled(number: int, frame: FrameType | None) -> None:
        on_signal()

    before = {number: signal.signal(number, signalled) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, action in before.items():
            signal.signal(number, action)


def leaving_on_signals() -> AbstractContextManager[None]:
    """Let SIGTERM and SIGINT end the process with code 0, as long as nobody watches them who has work to end first.

    By default the first process of a container does not even see SIGTERM, and SIGINT leaves a traceback.
    """
    return watching_signals(_leave)


def _leave() -> None:
    raise SystemExit(0)


def deaf_shell(first: Path = Path("/proc/1/comm")) -> str:
    """Return the name of the shell that is the first process of this container and waits for this one, or "".

    The kernel gives the first process no signal that it has no handler for, so a shell there ends neither itself nor
    what it waits for.
    """
    try:
        name = first.read_text(encoding="utf-8").strip() if os.getppid() == 1 else ""
    except OSError:
        return ""
    return name if name in SHELLS else ""

"""Long polls and waits: who waits for what, in which order they came.

Everything here is called with the server's lock held, but for ``Waiter.wait``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from orbit_django.embedded.answers import Host
from orbit_django.embedded.callers import Caller
from orbit_django.embedded.executions import Execution
from orbit_django.embedded.listener import ClosedError
from orbit_django.exceptions import RuntimeRefusalError


@dataclass(eq=False, slots=True)
class Waiter:
    """A request that waits; ``look`` returns its answer, or None as long as there is none."""

    look: Callable[[], Any]
    is_gone: Callable[[], bool]
    result: Any = None
    error: Exception | None = None
    event: threading.Event = field(default_factory=threading.Event)

    def wait(self, seconds: float) -> None:
        """Wait until there is an answer, or the time is over."""
        self.event.wait(seconds)

    def try_once(self) -> bool:
        """Look for the answer and say whether the wait is over."""
        try:
            self.result = self.look()
        except RuntimeRefusalError as error:
            self.error = error
        is_over = self.result is not None or self.error is not None
        if is_over:
            self.event.set()
        return is_over


class Waiters:
    """Requests that wait, first come first served (O065)."""

    def __init__(self) -> None:
        self._waiting: dict[Waiter, None] = {}
        self._is_closed = False

    def add(self, waiter: Waiter) -> None:
        """Let a request wait."""
        if self._is_closed:
            raise ClosedError
        self._waiting[waiter] = None

    def settle(self, waiter: Waiter) -> Any:
        """End a wait; return its answer or None, or raise its error."""
        self._waiting.pop(waiter, None)
        if waiter.error is not None:
            raise waiter.error
        return waiter.result

    def serve(self) -> None:
        """Give answers to those for whom there is one now. A client that hung up is passed over, not handed a task."""
        for waiter in tuple(self._waiting):
            if waiter.is_gone() or waiter.try_once():
                self._waiting.pop(waiter, None)

    def close(self) -> None:
        """End every wait without an answer."""
        self._is_closed = True
        for waiter in self._waiting:
            waiter.error = ClosedError()
            waiter.event.set()
        self._waiting.clear()


def poll_look(host: Host, session_id: str, caller: Caller) -> Callable[[], Any]:
    """Return what a waiting poll looks for: a task, or the end of its session."""
    # The runtime is asked for anew each time: a restart puts another one in its place.
    return lambda: host.runtime.poll(session_id, caller, is_contact=False)


def finish_look(host: Host, execution_id: str) -> Callable[[], Any]:
    """Return what a wait for an execution looks for: its end."""

    def look() -> Execution | None:
        execution = host.runtime.state.execution(execution_id)
        return execution if execution.is_finished else None

    return look

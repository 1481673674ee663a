"""Deliveries whose key is busy: they wait here, outside the poll loops and outside the database.

Busy may mean that a neighbour is: MariaDB locks the gap below a key that was there before, and a new key that falls
into it waits for a transaction that has nothing to do with it, often one of this process.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from django.db import connections

from orbit_django.clock import Clock
from orbit_django.context import TaskContext
from orbit_django.logs import SteadyLogger

logger = SteadyLogger(logging.getLogger(__name__))

FIRST_WAIT = 0.01
TOP_WAIT = 0.25
LONG_WAIT = 1.0
LONG_AFTER = 30.0
TOLD_AFTER = 1.0  # a wait that long is worth a line


class Parking:
    """A bounded number of waiting deliveries, each on a thread of its own."""

    def __init__(
        self, places: int, clock: Clock, stop: threading.Event, running: Callable[[], int] = lambda: 0
    ) -> None:
        self._places = threading.BoundedSemaphore(places)
        self._clock = clock
        self._stop = stop
        self._running = running  # counts what this process has in hand, parked deliveries too
        self._lock = threading.Lock()
        self._resting = 0  # deliveries that wait to ask

    def park(self, context: TaskContext, ask: Callable[[], bool], leave: Callable[[], None]) -> None:
        """Ask again and again until ``ask`` says that the delivery is dealt with; then ``leave``.

        Returns at once while there is a place, otherwise waits in the caller's thread, which then takes no work.
        A delivery is dropped when the worker stops (the runtime delivers again), but not before it was asked for once
        more after everything else in this process; and at its deadline, where the runtime has ended the attempt itself.
        """
        if not self._places.acquire(blocking=False):
            self._wait(context, ask, leave)
            return
        threading.Thread(target=self._in_place, args=(context, ask, leave), name="orbit-parked", daemon=True).start()

    def _in_place(self, context: TaskContext, ask: Callable[[], bool], leave: Callable[[], None]) -> None:
        try:
            self._wait(context, ask, leave)
        finally:
            self._places.release()
            connections.close_all()

    def _wait(self, context: TaskContext, ask: Callable[[], bool], leave: Callable[[], None]) -> None:
        began = self._clock.monotonic()
        wait, is_told, is_last = FIRST_WAIT, False, False
        try:
            while not is_last:
                is_last = self._rest(context, wait)
                if self._is_pointless(context) or ask():
                    return
                waited = self._clock.monotonic() - began
                wait = min(wait * 2, LONG_WAIT if waited > LONG_AFTER else TOP_WAIT)
                if waited > TOLD_AFTER and not is_told:
                    is_told = True
                    logger.info("a delivery waits for another run of its key", extra=_about(context))
        except Exception:
            logger.exception("a parked delivery failed")
        finally:
            leave()

    def _rest(self, context: TaskContext, wait: float) -> bool:
        """Wait until it is time to ask; return whether that is the last time.

        A worker that stops waits for what runs in it anyway, and that may be what is in the way.
        """
        with self._lock:
            self._resting += 1
        try:
            if not self._stop.wait(wait):
                return False
            if self._running() <= self._resting:
                return True
            context.cancelled.wait(wait)
            return False
        finally:
            with self._lock:
                self._resting -= 1

    def _is_pointless(self, context: TaskContext) -> bool:
        """Return whether the attempt is over, or was cancelled in a worker that stops."""
        return context.cancelled.is_over or (self._stop.is_set() and context.is_cancelled)


def _about(context: TaskContext) -> dict[str, object]:
    return {"execution": context.execution_id, "step": context.step_id, "attempt": context.attempt}

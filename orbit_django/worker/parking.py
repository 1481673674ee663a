"""Deliveries whose key is busy: they wait here, outside the poll loops and outside the database."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from django.db import connections

from orbit_django.clock import Clock
from orbit_django.context import TaskContext

logger = logging.getLogger(__name__)

FIRST_WAIT = 0.01
TOP_WAIT = 0.25
LONG_WAIT = 1.0
LONG_AFTER = 30.0
TOLD_AFTER = 1.0  # a wait that long is worth a line


class Parking:
    """A bounded number of waiting deliveries, each on a thread of its own."""

    def __init__(self, places: int, clock: Clock, stop: threading.Event) -> None:
        self._places = threading.BoundedSemaphore(places)
        self._clock = clock
        self._stop = stop

    def park(self, context: TaskContext, ask: Callable[[], bool], leave: Callable[[], None]) -> None:
        """Ask again and again until ``ask`` says that the delivery is dealt with; then ``leave``.

        Returns at once while there is a place, otherwise waits in the caller's thread, which then takes no work.
        A delivery is dropped when the worker stops (the runtime delivers again) and at its deadline, where the
        runtime has ended the attempt itself.
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
        wait, is_told = FIRST_WAIT, False
        try:
            while not self._stop.wait(wait) and not context.cancelled.is_over:
                if ask():
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


def _about(context: TaskContext) -> dict[str, object]:
    return {"execution": context.execution_id, "step": context.step_id, "attempt": context.attempt}

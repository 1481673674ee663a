"""Waiting out a database that is away or busy, without waiting for ever."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import TypeVar

from django.db import DatabaseError, InterfaceError

from orbit_django.clock import Clock
from orbit_django.context import TaskContext
from orbit_django.dialects import dialect_of
from orbit_django.exceptions import AbandonedError
from orbit_django.logs import SteadyLogger
from orbit_django.worker import housekeeping
from orbit_django.worker.gate import DatabaseGate
from orbit_django.worker.runner import delay_after

logger = SteadyLogger(logging.getLogger(__name__))

T = TypeVar("T")

LEAVE_SECONDS = 5.0  # how long a stopping worker goes on asking a database that is away


class Patience:
    """Repeats database steps; gives up only when the process must end or when trying has become pointless."""

    def __init__(self, clock: Clock, gate: DatabaseGate, *, stop: threading.Event, halt: threading.Event) -> None:
        self._clock = clock
        self._gate = gate
        self._stop = stop  # no new work is taken
        self._halt = halt  # the process ends now
        self._stopping_since: float | None = None

    def repeat(
        self,
        context: TaskContext,
        step: Callable[[], T],
        *,
        using: str,
        has_run: bool = False,
        tries: int | None = None,
    ) -> T:
        """Return what the step returns, repeating it while the database is away or its errors pass.

        ``has_run`` says that there is work to lose: then the attempt's deadline is no reason to give up. Raises
        AbandonedError when it gives up; errors of the database that will not pass, and the last one after ``tries``,
        as they are.
        """
        failures = 0
        while True:
            try:
                result = step()
            except (DatabaseError, InterfaceError) as error:
                dialect = dialect_of(using)
                if not dialect.is_transient(error) and not dialect.is_connection_lost(error):
                    raise
                failures += 1
                if failures == tries:
                    raise
                self.pause(context, failures, error, using=using, has_run=has_run)
            else:
                self.succeeded()
                return result

    def pause(
        self, context: TaskContext, failures: int, cause: BaseException | None, *, using: str, has_run: bool
    ) -> None:
        """Wait before the next try; raise AbandonedError when there is to be none."""
        if failures in (1, 10, 100, 1000):
            logger.warning("the database refused or lost a step", extra={"error": repr(cause), "failures": failures})
        if cause is not None and dialect_of(using).is_connection_lost(cause):
            housekeeping.discard(using)
            if failures > 1:
                self._gate.close(cause)
        if not has_run and context.cancelled.is_over:
            raise AbandonedError
        if self._halt.wait(delay_after(failures, 0.05, 1.0)) or self._is_leaving():
            raise AbandonedError

    def now(self) -> float:
        """Return the monotonic time."""
        return self._clock.monotonic()

    def succeeded(self) -> None:
        """Note that the database answers."""
        self._gate.open()

    def _is_leaving(self) -> bool:
        if not self._stop.is_set():
            return False
        now = self._clock.monotonic()
        self._stopping_since = self._stopping_since or now
        return now - self._stopping_since > LEAVE_SECONDS

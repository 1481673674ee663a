"""Heartbeats: keep the session alive at the pace the runtime asked for, and pass cancellations on.

Independent of handlers, polls and the database: nothing here may wait for any of them (O081, O154).
"""

from __future__ import annotations

import logging

from orbit_django.clock import Clock
from orbit_django.exceptions import NoAnswerError, RefusedError, UnknownSessionError
from orbit_django.logs import SteadyLogger
from orbit_django.protocol import Session
from orbit_django.transports.base import Transport
from orbit_django.worker.held import Held
from orbit_django.worker.runner import StoppedError
from orbit_django.worker.session import SessionHolder
from orbit_django.worker.vitals import Vitals

logger = SteadyLogger(logging.getLogger(__name__))

DEAF_SECONDS = 30.0  # how long a cancelled handler may go on before that is said
NO_SESSION_WAIT_SECONDS = 0.05
CALL_SECONDS = 10.0
LEAST_INTERVAL_SECONDS = 0.25


class Heartbeat:
    """The loop that beats; its step is one beat. A binding that renews many leases has several of them."""

    def __init__(
        self,
        transport: Transport,
        session: SessionHolder,
        held: Held,
        clock: Clock,
        *,
        vitals: Vitals | None = None,
        number: int = 1,
    ) -> None:
        self.name = "heartbeat" if number == 1 else f"heartbeat-{number}"
        self._transport = transport
        self._session = session
        self._held = held
        self._clock = clock
        self._vitals = vitals or Vitals()
        self._beating: str | None = None
        self._next_at = 0.0
        self._failures = 0

    def step(self) -> float:
        """Beat when it is time; return the seconds until the next beat."""
        session = self._session.peek()
        if session is None or self._session.is_overdue():
            return self._reopen(session)
        now = self._clock.monotonic()
        interval = _interval(session)
        if session.session_id != self._beating:
            self._beating, self._next_at = session.session_id, now + interval
        if now < self._next_at:
            return min(self._next_at - now, 0.25)  # a new session has a pace of its own
        self._next_at = max(self._next_at + interval, now)  # late beats do not pile up
        self._beat(session)
        self._tell_deaf(now)
        return 0.0

    def _tell_deaf(self, now: float) -> None:
        """Say once which handlers go on although they were told to stop: nothing is ever thrown into them."""
        for context in self._held.deaf(now, DEAF_SECONDS):
            context.logger.warning(
                "a handler goes on although it was cancelled",
                extra={"reason": context.cancelled.reason, "seconds": DEAF_SECONDS},
            )

    def _reopen(self, session: Session | None) -> float:
        """Open a session again, also while every loop waits in a handler or a poll, or replace the one in doubt.

        The first one, and one in doubt while nothing is held, is left to the loops.
        """
        is_needed = len(self._held) > 0
        if is_needed or (session is None and self._session.count):
            try:
                self._session.current(is_draining=is_needed)
            except StoppedError:
                return CALL_SECONDS / 10
        return NO_SESSION_WAIT_SECONDS

    def _beat(self, session: Session) -> None:
        limit = min(CALL_SECONDS, max(session.session_timeout_ms / 3000, 0.5))
        try:
            tokens = self._transport.heartbeat(session.session_id, timeout_seconds=limit)
        except UnknownSessionError:
            self._session.lost(session.session_id)
            return
        except (NoAnswerError, RefusedError) as error:
            self._failures += 1
            if self._failures in (1, 10, 100):
                logger.warning("a heartbeat failed", extra={"error": str(error), "failures": self._failures})
            return
        self._failures = 0
        self._vitals.beat()
        if tokens:
            self._held.cancel(tokens)


def _interval(session: Session) -> float:
    """Return the seconds between two beats: as asked for, unless that would lose the session or flood the runtime."""
    asked, timeout = session.heartbeat_interval_ms / 1000, session.session_timeout_ms / 1000
    return max(timeout / 3 if 0 < timeout <= asked else asked, LEAST_INTERVAL_SECONDS)

"""The worker's session: opened once, replaced once when it was lost, and replaced soon when it is in doubt.

Many threads use it and any of them may learn that it is gone; exactly one registers again (O150). A poll whose
answer was lost may have left an assignment in the session that nobody here knows of and that heartbeats would keep
alive for ever, so such a session is given back as soon as that hurts nobody.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from http import HTTPStatus

from orbit_django.clock import Clock
from orbit_django.exceptions import NoAnswerError, RefusedError, TransportError
from orbit_django.logs import SteadyLogger
from orbit_django.payloads import cut
from orbit_django.protocol import Registration, Session
from orbit_django.transports.base import Transport
from orbit_django.worker.held import Held
from orbit_django.worker.runner import Backoff, StoppedError, get_on

logger = SteadyLogger(logging.getLogger(__name__))

PASSING_STATUSES = (408, 425, 429)  # refusals that time heals
REFUSED_WAIT_SECONDS = 5.0
CLOSE_SECONDS = 2.0
LEAVE_SECONDS = 1.0  # how long a registration on its way holds up the end
TOLD_WARNINGS = 50
TOLD_FAILURES = (1, 10, 100, 1000)


class SessionHolder:
    """The one current session of this process."""

    def __init__(
        self,
        transport: Transport,
        registration: Registration,
        *,
        held: Held,
        clock: Clock,
        stop: threading.Event,
        on_refused: Callable[[RefusedError], None],
    ) -> None:
        self._transport = transport
        self._registration = registration
        self._held = held
        self._clock = clock
        self._stop = stop
        self._on_refused = on_refused
        self._changed = threading.Condition()
        self._session: Session | None = None
        self._doubted_at: float | None = None
        self._is_registering = False
        self._is_closed = False
        self._closed = threading.Event()
        self.credential_source = ""  # the setting that the worker's credential comes from, for messages
        self.count = 0  # sessions opened so far
        self.has_asked = False  # whether the runtime was asked for a session, and did not turn this worker away

    def peek(self) -> Session | None:
        """Return the current session without waiting."""
        return self._session

    def current(self, *, is_draining: bool = False) -> Session:
        """Return the session to use, opening one when there is none; blocks while the runtime is away.

        Raises StoppedError when the worker stops meanwhile; with ``is_draining`` only when the session was given back.
        """
        while True:
            get_on()
            with self._changed:
                self._check_stopped(is_draining)
                wait = self._wait_seconds()
                if self._session is not None and wait is None:
                    return self._session
                if self._is_registering or wait:
                    self._changed.wait(min(wait or 0.2, 0.2))
                    continue
                self._is_registering = True
            try:
                self._replace(is_draining)
            finally:
                with self._changed:
                    self._is_registering = False
                    self._changed.notify_all()

    def lost(self, session_id: str) -> None:
        """Note that the runtime does not know this session; a newer one stays as it is."""
        with self._changed:
            if self._session is not None and self._session.session_id == session_id:
                logger.warning("the runtime does not know the session any more; registering again")
                self._session = None
                self._doubted_at = None
                self._changed.notify_all()

    def doubt(self, session_id: str) -> None:
        """Note that a poll of this session may have brought an assignment that was lost on the way."""
        with self._changed:
            is_current = self._session is not None and self._session.session_id == session_id
            if is_current and self._doubted_at is None:
                logger.info("the answer to a poll was lost; the session will be replaced")
                self._doubted_at = self._clock.monotonic()

    def is_overdue(self) -> bool:
        """Return whether the session should have been replaced by now, and no loop is free to do it."""
        with self._changed:
            return self._wait_seconds() == 0 and not self._is_closed and not self._stop.is_set()

    def close(self) -> None:
        """Give the session back, once; what it still holds is redelivered at once (O110)."""
        with self._changed:
            self._is_closed = True
            self._closed.set()
            self._changed.wait_for(lambda: not self._is_registering, LEAVE_SECONDS)  # it gives its session back itself
            session, self._session = self._session, None
            self._changed.notify_all()
        if session is not None:
            self._give_back(session)

    def _check_stopped(self, is_draining: bool) -> None:
        if self._is_closed or (self._stop.is_set() and not is_draining):
            raise StoppedError

    def _wait_seconds(self) -> float | None:
        """Return None to go on, 0 to replace a session in doubt now, or the seconds until it must be."""
        if self._session is None or self._doubted_at is None:
            return None
        limit = self._session.session_timeout_ms / 1000
        left = self._doubted_at + limit - self._clock.monotonic()
        return max(left, 0.0) if len(self._held) else 0.0

    def _replace(self, is_draining: bool) -> None:
        session = self._register(is_draining)
        with self._changed:
            surplus: Session | None = session
            if not self._is_closed:
                surplus, self._session, self._doubted_at = self._session, session, None
                self.count += 1
            self._changed.notify_all()
        if surplus is not None:
            self._give_back(surplus)

    def _register(self, is_draining: bool) -> Session:
        backoff, failures = Backoff(), 0
        while True:
            get_on()
            try:
                session = self._transport.register(self._registration)
            except NoAnswerError as error:
                failures, wait = failures + 1, backoff.next()
                _tell_absence(error, failures, wait)
            except RefusedError as error:
                wait = self._refused(error, backoff)
            else:
                break
            self.has_asked = True
            (self._closed if is_draining else self._stop).wait(wait)
            self._check_stopped(is_draining)
        self.has_asked = True
        if failures:
            _tell_presence(failures, is_first=not self.count)
        for warning in session.warnings[:TOLD_WARNINGS]:
            logger.warning("the runtime warns", extra={"warning": cut(warning, 500)})
        logger.info("registered", extra={"worker": self._registration.worker_id})
        return session

    def _refused(self, error: RefusedError, backoff: Backoff) -> float:
        """Return the wait after a refusal: at the start it is a mistake that ends the worker, later it may pass."""
        if error.status in PASSING_STATUSES:
            return backoff.next()
        if not self.count:
            self._on_refused(error)
            raise StoppedError
        found = credential_advice(error, self.credential_source)
        advice = {"advice": found} if found else {}
        logger.error("the runtime refuses to register this worker again", extra={"error": str(error)} | advice)
        return REFUSED_WAIT_SECONDS

    def _give_back(self, session: Session) -> None:
        try:
            self._transport.unregister(session.session_id, timeout_seconds=CLOSE_SECONDS)
        except TransportError as error:
            logger.info("a session was not closed; it will expire", extra={"error": str(error)})


def credential_advice(refusal: RefusedError, source: str) -> str:
    """Return which setting a credential that was not taken came from, "" for another refusal; never the credential."""
    if refusal.status != HTTPStatus.UNAUTHORIZED or (source and source in str(refusal)):
        return ""
    return f"look at {source}" if source else "set WORKER_TOKEN or WORKER_TOKEN_FILE"


def _tell_presence(failures: int, *, is_first: bool) -> None:
    if is_first:
        logger.warning("the runtime is there", extra={"failures": failures})
    else:
        logger.warning("the runtime is back", extra={"failures": failures})


def _tell_absence(error: NoAnswerError, failures: int, wait: float) -> None:
    if failures in TOLD_FAILURES:
        about = {"error": str(error), "failures": failures, "retry_in": round(wait, 1)}
        logger.warning("the runtime cannot be reached; the worker has no session and goes on trying", extra=about)

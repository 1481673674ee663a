"""One poll loop: ask for a task when there is room, have it executed, report, and ask again (O180)."""

from __future__ import annotations

import logging
import threading
from functools import partial

from orbit_django.clock import Clock
from orbit_django.context import TaskContext
from orbit_django.exceptions import ConfigurationError, NoAnswerError, RefusedError, UnknownSessionError
from orbit_django.logs import SteadyLogger, about
from orbit_django.models import OutboxMessage
from orbit_django.protocol import Assignment, Session
from orbit_django.transports.base import Transport, deliveries_of
from orbit_django.worker import announce, housekeeping
from orbit_django.worker.allowance import Allowance
from orbit_django.worker.delivery import Deferred
from orbit_django.worker.executor import Executor
from orbit_django.worker.gate import DatabaseGate
from orbit_django.worker.held import Held
from orbit_django.worker.parking import Parking
from orbit_django.worker.relay import Relay
from orbit_django.worker.runner import Backoff, StoppedError, delay_after
from orbit_django.worker.session import SessionHolder
from orbit_django.worker.vitals import Vitals

logger = SteadyLogger(logging.getLogger(__name__))

REFUSED_WAIT_SECONDS = 5.6  # a tenth less by chance: more than 5 s
GATE_WAIT_SECONDS = 0.2


class Rooms:
    """What every loop of a worker shares."""

    def __init__(  # noqa: PLR0913  (a list of rooms, each by name)
        self,
        *,
        transport: Transport,
        session: SessionHolder,
        executor: Executor,
        relay: Relay,
        parking: Parking,
        held: Held,
        gate: DatabaseGate,
        clock: Clock,
        stop: threading.Event,
        worker_id: str,
        concurrency: int,
        wait_ms: int,
        allowance: Allowance | None = None,
        vitals: Vitals | None = None,
    ) -> None:
        self.transport = transport
        self.deliveries = deliveries_of(transport)
        self.session = session
        self.executor = executor
        self.relay = relay
        self.parking = parking
        self.held = held
        self.gate = gate
        self.clock = clock
        self.stop = stop
        self.worker_id = worker_id
        self.wait_ms = wait_ms
        self.allowance = allowance or Allowance()
        self.vitals = vitals or Vitals()
        self.slots = threading.BoundedSemaphore(concurrency)  # handlers at the same time, parked ones included
        self._lock = threading.Lock()
        self._refusal = ""
        self._refused_at = 0.0

    def is_news(self, refusal: str) -> bool:
        """Note how a loop's poll was refused; return whether no other loop has told of it."""
        with self._lock:
            is_news, self._refusal = refusal != self._refusal, refusal
            self._refused_at = self.clock.monotonic()
            return is_news

    def was_taken(self, began: float) -> None:
        """Note that a poll was not refused; one that began before others were refused tells nothing."""
        with self._lock:
            if began >= self._refused_at:
                self._refusal = ""


class PollLoop:
    """The loop that works; its step is one poll and what comes of it."""

    def __init__(self, rooms: Rooms, number: int) -> None:
        self.name = f"loop-{number}"
        self._rooms = rooms
        self._backoff = Backoff()
        self._received = 0
        self.answered_at = 0.0  # when a poll was last answered, in monotonic seconds
        self._empty_from: float | None = None  # when the last poll that brought nothing began
        self._progress = rooms.vitals.loop(self.name)
        self._session_id = ""

    def step(self) -> float:
        """Poll once; return the seconds to wait before the next poll."""
        rooms = self._rooms
        if rooms.stop.is_set() or rooms.allowance.is_spent:
            raise StoppedError
        is_free = rooms.gate.wait(GATE_WAIT_SECONDS) and rooms.allowance.reserve(GATE_WAIT_SECONDS)
        if not is_free:
            self._progress.held_up()
            return 0.0
        before = self._received
        try:
            return self._poll()
        finally:
            if self._received == before:
                rooms.allowance.give_back()

    def found_nothing_since(self, moment: float) -> bool:
        """Return whether a poll that began at that monotonic second or later was answered with no task."""
        return self._empty_from is not None and self._empty_from >= moment

    def _poll(self) -> float:
        rooms = self._rooms
        session = self._use_session()
        began = rooms.clock.monotonic()
        try:
            assignment = rooms.transport.poll(session.session_id, rooms.wait_ms)
        except UnknownSessionError:
            rooms.vitals.tell("polls", "unknown_session")
            rooms.session.lost(session.session_id)
            return self._backoff.next()
        except NoAnswerError as error:
            return self._unanswered(session, error)
        except (RefusedError, ConfigurationError) as error:  # the latter: a token file that went bad
            if isinstance(error, RefusedError) and not error.is_from_runtime:
                rooms.session.doubt(session.session_id)  # somebody in between may have swallowed an assignment
            return self._refused(error)
        rooms.was_taken(began)
        self.answered_at = rooms.clock.monotonic()
        self._progress.answered()
        rooms.vitals.tell("polls", "empty" if assignment is None else "task")
        if assignment is None:
            self._empty_from = began
            return self._empty(rooms.clock.monotonic() - began)
        self._backoff.reset()
        with self._progress.busy():
            self._take(assignment, session)
        return 0.0

    def _use_session(self) -> Session:
        session = self._rooms.session.current()
        if session.session_id != self._session_id:
            self._session_id = session.session_id
            self._progress.has_session()
        return session

    def _unanswered(self, session: Session, error: NoAnswerError) -> float:
        self._rooms.vitals.tell("polls", "no_answer")
        if error.is_maybe_processed:
            self._rooms.session.doubt(session.session_id)
        wait = self._backoff.next()
        logger.info("a poll got no answer", extra={"error": str(error), "retry_in": round(wait, 1)})
        return wait

    def _refused(self, error: Exception) -> float:
        self._rooms.vitals.tell("polls", "refused")
        if self._rooms.is_news(str(error)):
            logger.error("the runtime refuses this worker's polls", extra={"error": str(error)})
        return delay_after(1, first=REFUSED_WAIT_SECONDS, top=REFUSED_WAIT_SECONDS)

    def _empty(self, seconds: float) -> float:
        """Poll again at once, unless the runtime answered sooner than it was asked to wait."""
        if seconds < min(self._rooms.wait_ms / 1000, 1.0) / 2:
            return self._backoff.next()
        self._backoff.reset()
        return 0.0

    def _take(self, assignment: Assignment, session: Session) -> None:
        """Hold a delivery until its report was sent, left to the relay, or dropped."""
        rooms = self._rooms
        lend = rooms.deliveries.credentials
        context = TaskContext(assignment, worker_id=rooms.worker_id, clock=rooms.clock, lend=lend)
        if not rooms.held.add(context):
            rooms.deliveries.drop(context.token)
            return  # the session is being closed: the runtime delivers again
        rooms.deliveries.take(context.token)
        self._received += 1
        rooms.allowance.received()
        rooms.vitals.received()
        logger.debug("a task was received", extra=about(assignment, redelivery=assignment.redelivery))
        announce.received(context, rooms.executor.handler_of(assignment))
        leave = partial(self._leave, context)
        ask = partial(self._execute, assignment, context, session)
        try:
            is_settled = ask()
        except BaseException:
            leave()
            raise
        if is_settled:
            leave()
        else:
            rooms.parking.park(context, ask, leave)

    def _execute(self, assignment: Assignment, context: TaskContext, session: Session) -> bool:
        """Execute and report; return whether the delivery is dealt with, which a busy key is not."""
        rooms = self._rooms
        try:
            with rooms.slots:
                housekeeping.before_task()
                result = rooms.executor.execute(assignment, context)
        except BaseException:
            rooms.session.doubt(session.session_id)  # nothing was reported: only a new session brings it back
            raise
        finally:
            housekeeping.after_task()
        if isinstance(result, OutboxMessage):
            rooms.held.reporting(context)
            rooms.relay.report(result)
        return result is not Deferred.PARKED

    def _leave(self, context: TaskContext) -> None:
        """Let go of a delivery; what has no report comes again, but not from here."""
        if not self._rooms.held.remove(context):
            self._rooms.deliveries.drop(context.token)

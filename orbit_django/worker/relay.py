"""The relay: sends what is owed to the runtime, until it answers; the only room that reports results.

A loop sends its own message once, right after the commit. What got no answer, and what a dead process left, is
found here: due messages are taken from the outbox, held, and sent by a few sender threads, so that a slow one
holds up no other.
"""

from __future__ import annotations

import heapq
import logging
import queue
import threading
from collections.abc import Callable, Iterable
from functools import partial

from django.db import DatabaseError, InterfaceError

from orbit_django import outbox
from orbit_django.clock import Clock
from orbit_django.dialects import dialect_of
from orbit_django.exceptions import NoAnswerError, NotCarriedError, PayloadError, PayloadTooLargeError, RefusedError
from orbit_django.logs import SteadyLogger
from orbit_django.models import OutboxMessage
from orbit_django.outbox import Origin
from orbit_django.payloads import cut
from orbit_django.protocol import REASON_CONTRACT, Kind, Receipt
from orbit_django.redaction import MET
from orbit_django.transports.base import Transport
from orbit_django.worker import announce, housekeeping
from orbit_django.worker.delivery import about_message
from orbit_django.worker.filing import GROUP_SECONDS, Filing
from orbit_django.worker.gate import DatabaseGate
from orbit_django.worker.pace import TROUBLED_SECONDS, Lane, Pace
from orbit_django.worker.runner import delay_after
from orbit_django.worker.vitals import Depth, Vitals

logger = SteadyLogger(logging.getLogger(__name__))

LOOK_SECONDS = 1.0  # between two looks in trouble
IDLE_SECONDS = 3.0  # and when nothing was due; what this process has to send again it knows to the moment
MOMENT_SECONDS = 0.02  # and while there is more to do
TOP_BATCH = 64  # messages taken and not yet answered
LOGGED_TRIES = (1, 10, 100, 1000)


class Relay:
    """Delivery of messages; ``step`` is one look at the outbox."""

    name = "relay"

    def __init__(  # noqa: PLR0913  (its surroundings, each by name)
        self,
        transport: Transport,
        origin: Origin,
        aliases: Iterable[str],
        *,
        clock: Clock,
        gate: DatabaseGate,
        redact: Callable[[str], str],
        identity: Callable[[], object] = lambda: None,
        senders: int = 4,
        on_due: Callable[[], object] = lambda: None,
        is_admitted: Callable[[], bool] = lambda: True,
        vitals: Vitals | None = None,
        group_seconds: float = GROUP_SECONDS,
    ) -> None:
        self.filing = Filing(self._lost, clock, group_seconds)
        self._transport = transport
        self._origin = origin
        self._aliases = tuple(aliases)
        self._clock = clock
        self._gate = gate
        self._redact = redact
        self._identity = identity
        self._tried_as: object = None  # the identity with which blocked messages were tried
        self.senders = self._batch = senders
        self._is_admitted = is_admitted  # whether the runtime may have let this worker in
        self._pace = Pace(clock)
        self._on_due = on_due  # told that a message of this process will fall due soon
        self._vitals = vitals or Vitals()
        self._taken: queue.SimpleQueue[tuple[OutboxMessage, float]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._busy = 0  # messages taken and not answered yet
        self._was_full = False
        self._looks = 0
        self._due: list[float] = []  # when messages of this process fall due, on the monotonic clock
        self._fresh = set(self._aliases)  # aliases whose blocked messages were not tried with it yet
        self._tried: list[OutboxMessage] = []  # but for these

    def report(self, message: OutboxMessage) -> None:
        """Send a message that was just committed, unless there are too many for a runtime that answers nothing."""
        if message.status != OutboxMessage.Status.PENDING or self._pace.take(Lane.FIRST):
            self.deliver(message)
        else:
            self.filing.write(partial(outbox.renew, message, 0))

    def deliver(self, message: OutboxMessage) -> None:
        """Send a message once and file what came of it."""
        if message.status != OutboxMessage.Status.PENDING:
            return
        MET.note(message.token)
        try:
            answer = self._transport.send(Kind(message.kind), outbox.text_of(message))
        except NoAnswerError as error:
            self._pace.unanswered()
            self._vitals.tell("delivery_attempts", "no_answer")
            self._postpone(message, self._redact(str(error)))
        except RefusedError as error:
            self._refused(message, error, self._redact(str(error)))
        except (NotCarriedError, PayloadTooLargeError) as error:
            self._declined(message, self._redact(str(error)))
        except (PayloadError, ValueError) as error:
            self._unsendable(message, self._redact(str(error)))
        else:
            self._pace.answered()
            receipt = Receipt(answer.accepted, cut(self._redact(answer.reason), outbox.LIMIT_TEXT), answer.text)
            self._log(message, receipt)
            self.filing.answered(message, receipt)

    def step(self) -> float:
        """Take what is due as far as there are senders; return the seconds until the next look."""
        if not self._is_admitted():
            return LOOK_SECONDS / 10
        housekeeping.before_task()
        try:
            count = self._look()
        except (DatabaseError, InterfaceError) as error:
            self._lost(error)
            return LOOK_SECONDS
        self._gate.open()
        self._vitals.looked()
        if self._pace.is_troubled:
            return TROUBLED_SECONDS
        return MOMENT_SECONDS if count or self._busy >= self._batch else self._wait_seconds()

    def send_next(self) -> float:
        """Send one message that ``step`` took, waiting for it a moment; the step of a sender."""
        try:
            message, taken_at = self._taken.get(timeout=0.5)
        except queue.Empty:
            return 0.0
        try:
            housekeeping.before_task()
            if self._is_mine_still(message, self._clock.monotonic() - taken_at):
                self.deliver(message)
        finally:
            with self._lock:
                self._busy -= 1
        return 0.0

    def has_sendable(self) -> bool:
        """Return whether anybody's messages that this worker may send have no answer yet, held ones included."""
        return any(outbox.sendable_count(using, self._origin) for using in self._aliases)

    def has_pending(self) -> bool:
        """Return whether messages that this worker earned have no answer yet."""
        return any(outbox.is_owed(using, self._origin) for using in self._aliases)

    def _look(self) -> int:
        self.filing.flush()
        count = 0
        self._notice_identity()
        for using in self._turns():
            if using in self._fresh:
                outbox.unblock(using, self._origin, self._tried)
                self._fresh.discard(using)
                self._tried = self._tried if self._fresh else []
            count += self._take(using)
        return count

    def _turns(self) -> tuple[str, ...]:
        """Return the aliases, each time with another one in front."""
        first = self._looks = (self._looks + 1) % len(self._aliases)
        return self._aliases[first:] + self._aliases[:first]

    def _take(self, using: str) -> int:
        """Take due messages for the senders that are free, one at a time while the runtime answers nothing."""
        if self._is_known_empty(using):
            return 0
        if self._was_full and not self._busy:  # a backlog, and it is answered at once: more at a time
            self._batch = min(self._batch * 2, TOP_BATCH)
        free = self._batch - self._busy
        if self._pace.is_troubled:
            free = min(free, int(self._pace.is_open(Lane.AGAIN)))
        found = outbox.claim_due(using, self._origin, free) if free > 0 else []
        for message in found:
            self._pace.take(Lane.AGAIN)
            with self._lock:
                self._busy += 1
            self._taken.put((message, self._clock.monotonic()))
        self._was_full = 0 < len(found) == free
        return len(found)

    def _is_mine_still(self, message: OutboxMessage, waited: float) -> bool:
        """Return whether a message that waited for a sender is still held; take fewer at once when it waited long."""
        if waited > LOOK_SECONDS:
            self._batch = self.senders
        try:
            return waited < outbox.HOLD_SECONDS / 3 or outbox.renew(message)
        except (DatabaseError, InterfaceError):
            return False  # it falls due by itself

    def _is_known_empty(self, using: str) -> bool:
        """Measure the outbox now and then, in place of a look: where nothing is pending, nothing is due."""
        if not self._vitals.wants_depth(using):
            return False
        found = OutboxMessage.objects.using(using).depth()
        oldest = found["oldest"]
        self._vitals.measured(using, Depth(found["pending"], found["blocked"], oldest and oldest.timestamp()))
        return not found["pending"]

    def _notice_identity(self) -> None:
        """Have blocked messages tried once more when the credential or the certificate has changed."""
        identity = self._identity()
        if identity != self._tried_as:
            self._tried_as = identity
            self._fresh = set(self._aliases)

    def _wait_seconds(self) -> float:
        now = self._clock.monotonic()
        with self._lock:
            while self._due and self._due[0] <= now:
                heapq.heappop(self._due)
            return min(IDLE_SECONDS, self._due[0] - now + 0.005) if self._due else IDLE_SECONDS

    def _postpone(self, message: OutboxMessage, text: str) -> None:
        delay = delay_after(message.attempts + 1)
        if message.attempts + 1 in LOGGED_TRIES:
            logger.warning("a result got no answer", extra=about_message(message, error=text))
        self.filing.write(partial(outbox.postpone, message, delay, text))
        with self._lock:
            heapq.heappush(self._due, self._clock.monotonic() + delay)
        self._on_due()

    def _refused(self, message: OutboxMessage, error: RefusedError, text: str) -> None:
        is_foreign = error.status == 403 and error.code == "FORBIDDEN" and message.worker_id != self._origin.worker_id
        is_about_result = error.is_from_runtime and error.status not in (401, 403) and error.status >= 400
        self._vitals.tell("delivery_attempts", "refused" if is_about_result else "blocked")
        logger.error("a result was refused", extra=about_message(message, error=text))
        if is_foreign:
            self.filing.write(partial(outbox.leave_to_owner, message, error, text))
        elif is_about_result:
            self._pace.answered()
            self.filing.write(partial(self._follow_up, message, error, text))
        else:
            self._pace.unanswered()
            if self._fresh:  # the relay has not looked yet, and must not take this for one of an earlier worker
                self._tried.append(message)
            self.filing.write(partial(outbox.block, message, error, text))

    def _declined(self, message: OutboxMessage, text: str) -> None:
        """Leave a report to senders over another binding: this one cannot carry it."""
        logger.warning("a result waits for another binding", extra=about_message(message, error=text))
        self.filing.write(partial(outbox.decline, message, self._origin, text))

    def _unsendable(self, message: OutboxMessage, text: str) -> None:
        """Set a row aside that is no report: somebody else than this package has written it."""
        logger.error("a message cannot be sent", extra=about_message(message, error=text))
        self.filing.write(partial(outbox.block, message, None, f"this row is no report that could be sent: {text}"))

    def _follow_up(self, message: OutboxMessage, error: RefusedError, text: str) -> None:
        following = outbox.refuse(message, error, text)
        announce.refused(message, text)
        if following is not None:
            self.deliver(following)

    def _lost(self, error: Exception) -> None:
        if any(dialect_of(using).is_connection_lost(error) for using in self._aliases):
            for using in self._aliases:
                housekeeping.discard(using)
            self._gate.close(error)
        else:
            logger.warning("the outbox could not be used", extra={"error": repr(error)})

    def _log(self, message: OutboxMessage, receipt: Receipt) -> None:
        reason = {"reason": receipt.reason} if receipt.reason else {}
        extra = about_message(message, accepted=receipt.accepted, **reason)
        self._vitals.tell("delivery_attempts", receipt.outcome)
        if receipt.accepted or receipt.is_benign:
            logger.info("a result was answered", extra=extra)
        elif receipt.reason.startswith(REASON_CONTRACT):
            logger.error("a result violates the contract of its task", extra=extra)
        else:
            logger.warning("a result was not accepted", extra=extra)


class Sender:
    """A loop that sends what the relay has taken."""

    def __init__(self, relay: Relay, number: int) -> None:
        self.name = f"sender-{number}"
        self._relay = relay

    def step(self) -> float:
        """Send at most one message."""
        return self._relay.send_next()

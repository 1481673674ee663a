"""What atomic and other tasks have in common: claim a key, replay an outcome, record a failure.

Each method that writes is one transaction, repeated for as long as the database is away.
"""

from __future__ import annotations

import contextvars
import logging
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from django.db import DatabaseError, transaction

from orbit_django import idempotency, outbox, payloads
from orbit_django.conf import OrbitSettings
from orbit_django.context import TaskContext
from orbit_django.exceptions import AbandonedError, NotCarriedError, PayloadTooLargeError
from orbit_django.logs import SteadyLogger, about
from orbit_django.models import IdempotencyRecord, OutboxMessage
from orbit_django.payloads import cut
from orbit_django.protocol import Assignment, Code, Completion, Failure, Kind
from orbit_django.redaction import redacted
from orbit_django.verdicts import Busy, Claim, Conflict, Poison, Stored, Verdict
from orbit_django.worker import housekeeping
from orbit_django.worker.delivery import Deferred, Delivery, Result
from orbit_django.worker.enclosure import Enclosure
from orbit_django.worker.invocation import HandlerError, ResultError, encode, failure_of, invoke
from orbit_django.worker.patience import Patience
from orbit_django.worker.vitals import Vitals

logger = SteadyLogger(logging.getLogger(__name__))

T = TypeVar("T")

CheckReport = Callable[[Kind, str], None]  # see transports.base; None where nothing is to be looked at

MISTAKES = (Code.INVALID_RESULT, Code.INVALID_INPUT, Code.RESULT_TOO_LARGE, Code.EFFECT_UNCERTAIN)


class Ledger:
    """Records and messages as the executor needs them; safe from many threads."""

    def __init__(
        self,
        settings: OrbitSettings,
        patience: Patience,
        vitals: Vitals | None = None,
        *,
        check_report: CheckReport | None = None,
    ) -> None:
        self.settings = settings
        self._check_report = check_report
        self.vitals = vitals or Vitals()
        self.patience = patience
        self.origin = outbox.Origin(settings.worker_name(), settings.reports_to)

    def begin(self, delivery: Delivery, lease_seconds: float | None = None) -> Verdict:
        """Ask for the key, as the first thing in an open transaction."""
        worker_id = self.origin.worker_id
        return idempotency.begin(delivery.key, owner=delivery.owner, worker_id=worker_id, lease_seconds=lease_seconds)

    def invoke(self, delivery: Delivery, scope: contextvars.Context) -> Any:
        """Call the handler, counted and timed; raise HandlerError for whatever it raised."""
        delivery.runs += 1
        began = self.patience.now()
        try:
            with housekeeping.wrapped_as_before():
                return invoke(delivery.task, delivery.assignment, delivery.context, scope)
        finally:
            self.vitals.ran(delivery.assignment.task_name, self.patience.now() - began)

    def encode(self, delivery: Delivery, result: Any) -> str:
        """Return the result as it will be stored and sent; raise HandlerError when it cannot be."""
        output = encode(delivery.task, result, delivery.assignment.token, self.settings.max_body_bytes)
        if error := self._obstacle(delivery, output):
            raise HandlerError from error
        return output

    def append(self, delivery: Delivery, record: IdempotencyRecord, error: str | None = None) -> Result:
        """Write the report of an outcome into the open transaction."""
        return outbox.append(delivery.assignment, self.origin, using=delivery.using, record=record, error=error)

    def store(
        self,
        delivery: Delivery,
        claim: Claim,
        *,
        output: str | None = None,
        error: str | None = None,
        is_last: bool = False,
    ) -> OutboxMessage:
        """Store an outcome and its report in the open transaction, of which they may be said to be the last."""
        report = outbox.draft(delivery.assignment, self.origin, using=delivery.using, error=error)
        record = idempotency.finish(claim, output=output, error=error, report=report, is_last=is_last)
        return outbox.add(report, record, delivery.using)

    def succeed(self, delivery: Delivery, claim: Claim, output: str) -> Result:
        """Store a success, and let the transaction end with it; raise HandlerError when it is too large to keep."""
        try:
            return self.store(delivery, claim, output=output, is_last=True)
        except PayloadTooLargeError as error:
            raise HandlerError from error

    def still_held(self, message: Result, began: float, limit: float = outbox.HOLD_SECONDS / 3) -> Result:
        """Return the message, or DROPPED when the commit and the hooks took so long that another sender has it."""
        is_old = self.patience.now() - began > limit
        if is_old and isinstance(message, OutboxMessage) and not outbox.renew(message):
            return Deferred.DROPPED
        return message

    def replay(self, delivery: Delivery, verdict: Stored | Conflict | Busy) -> Result:
        """Append the report of what stands already, under the new token."""
        if isinstance(verdict, Busy):
            transaction.set_rollback(True, using=delivery.using)
            return Deferred.PARKED
        present = outbox.find(delivery.assignment, delivery.using)
        if present is not None:
            return present
        delivery.way = "conflict" if isinstance(verdict, Conflict) else "replay"
        if isinstance(verdict, Conflict):
            logger.error("an idempotency key was used with another input", extra=about(delivery.assignment))
            return self.append(delivery, verdict.record, self.encoded(verdict.failure))
        logger.info("answered from the record", extra=about(delivery.assignment))
        return self.append(delivery, verdict.record, self._stored_error(delivery, verdict.record))

    def fail(self, delivery: Delivery, failure: Failure) -> Result:
        """Record a failure in a transaction of its own, unless the key has an outcome by now."""
        delivery.code = failure.code
        error = self.encoded(failure)
        try:
            return self.patiently(delivery, partial(self._store_failure, delivery, error), has_run=True)
        except DatabaseError:  # this very delivery cannot be recorded; it is reported all the same
            logger.exception("a failure could not be recorded", extra=about(delivery.assignment))
            return self.report_bare(delivery.assignment, delivery.context, delivery.using, error)

    def report_bare(self, assignment: Assignment, context: TaskContext, using: str, error: str) -> Result:
        """Report a failure that no record belongs to."""

        def step() -> Result:
            with Enclosure(using):
                present = outbox.find(assignment, using)
                return present or outbox.append(assignment, self.origin, using=using, record=None, error=error)

        return self.patience.repeat(context, step, using=using, has_run=True)

    def count_run(self, delivery: Delivery) -> Poison | None:
        """Count a run that begins on a redelivery, or say that there were too many."""
        limit, worker_id = self.settings.max_redeliveries, self.origin.worker_id

        def step() -> Poison | None:
            with Enclosure(delivery.using):
                return idempotency.count_run(delivery.key, owner=delivery.owner, worker_id=worker_id, limit=limit)

        return self.patiently(delivery, step)

    def discount_run(self, delivery: Delivery) -> None:
        """Take the count back."""

        def step() -> None:
            with Enclosure(delivery.using):
                idempotency.discount_run(delivery.key)

        self.patiently(delivery, step)

    def failure(self, delivery: Delivery, cause: BaseException) -> Failure:
        """Return the failure that reports what went wrong; log it once."""
        try:
            failure = failure_of(cause, delivery.context, self.redact(delivery))
        except AbandonedError:
            raise
        except BaseException:  # noqa: BLE001  (an exception is the handler's code as well, and may even exit)
            failure = Failure(Code.UNHANDLED_EXCEPTION, type(cause).__name__, retryable=True)
        delivery.code = failure.code
        extra = about(delivery.assignment, code=failure.code, error=cut(failure.message, 200), again=failure.retryable)
        if failure.code == Code.UNHANDLED_EXCEPTION:
            logger.error("a task failed", exc_info=cause, extra=extra)
        else:
            logger.log(logging.ERROR if failure.code in MISTAKES else logging.WARNING, "a task failed", extra=extra)
        return failure

    def redact(self, delivery: Delivery) -> Callable[[str], str]:
        """Return what takes credentials and the delivery's token out of a text."""
        return lambda text: redacted(self.settings.redact(text), tokens=(delivery.assignment.token,))

    def encoded(self, failure: Failure) -> str:
        """Return a failure's fields as text that fits the runtime's limit; its details are the handler's objects."""
        try:
            return payloads.encode_failure(failure, self.settings.max_body_bytes)
        except AbandonedError:
            raise
        except BaseException:  # noqa: BLE001  (they may do anything when they are looked at)
            bare = Failure(Code.UNHANDLED_EXCEPTION, "a failure whose details can not be shown", failure.retryable)
            return payloads.encode_failure(bare, self.settings.max_body_bytes)

    def patiently(self, delivery: Delivery, step: Callable[[], T], *, has_run: bool = False) -> T:
        """Repeat a database step while the database is away."""
        return self.patience.repeat(delivery.context, step, using=delivery.using, has_run=has_run)

    def _obstacle(self, delivery: Delivery, output: str) -> Exception | None:
        """Return what keeps this worker's binding from ever reporting a success."""
        if self._check_report is None:
            return None
        try:
            self._check_report(Kind.COMPLETE, payloads.body_of(delivery.assignment.token, Completion(output)))
        except NotCarriedError as error:
            return ResultError(error)
        except PayloadTooLargeError as error:
            return error
        return None

    def _stored_error(self, delivery: Delivery, record: IdempotencyRecord) -> str | None:
        """Return the failure to report of a record: its own, or why its success cannot be reported here."""
        if record.output is None or (error := self._obstacle(delivery, record.output)) is None:
            return record.error
        return self.encoded(self.failure(delivery, error))

    def _store_failure(self, delivery: Delivery, error: str) -> Result:
        with Enclosure(delivery.using):
            verdict = self.begin(delivery)
            if not isinstance(verdict, Claim):
                return self.replay(delivery, verdict)
            return self.store(delivery, verdict, error=error)

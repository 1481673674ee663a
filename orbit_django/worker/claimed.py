"""Tasks that are not atomic: claim and commit, run for as long as it takes, then store the outcome under the claim."""

from __future__ import annotations

import contextvars
import logging
from functools import partial
from weakref import WeakKeyDictionary

from django.db import DatabaseError, InterfaceError

from orbit_django import idempotency
from orbit_django.context import TaskContext
from orbit_django.effects import ClaimedEffects
from orbit_django.exceptions import AbandonedError, PayloadTooLargeError, TransactionEndedError
from orbit_django.logs import SteadyLogger, about
from orbit_django.verdicts import Claim
from orbit_django.worker import housekeeping
from orbit_django.worker.claims import Claims
from orbit_django.worker.delivery import Deferred, Delivery, Result
from orbit_django.worker.enclosure import Enclosure
from orbit_django.worker.invocation import HandlerError, cause_of
from orbit_django.worker.ledger import Ledger

logger = SteadyLogger(logging.getLogger(__name__))


class ClaimedRun:
    """Runs tasks under a claim that is on record while they run."""

    def __init__(self, ledger: Ledger, claims: Claims) -> None:
        self._ledger = ledger
        self._claims = claims
        self._marks: WeakKeyDictionary[TaskContext, str] = WeakKeyDictionary()  # of claims without an answer yet

    def run(self, delivery: Delivery) -> Result:
        """Return once the outcome is committed; PARKED when the key has another owner by then.

        Until it runs, a delivery that was parked asks under the same mark: the owner that it waits for may be itself,
        in a commit whose answer was lost.
        """
        delivery.owner = self._marks.setdefault(delivery.context, delivery.owner)
        claim = self._ledger.patiently(delivery, partial(self._claim, delivery))
        if not isinstance(claim, Claim):
            return claim
        del self._marks[delivery.context]
        self._claims.add(claim)
        try:
            return self._under(claim, delivery)
        except AbandonedError:
            self._release(claim)
            raise
        finally:
            self._claims.remove(claim)

    def _claim(self, delivery: Delivery) -> Claim | Result:
        with Enclosure(delivery.using):
            verdict = self._ledger.begin(delivery, self._ledger.settings.claim_seconds)
            return verdict if isinstance(verdict, Claim) else self._ledger.replay(delivery, verdict)

    def _under(self, claim: Claim, delivery: Delivery) -> Result:
        repeat = partial(self._ledger.patience.repeat, delivery.context, using=delivery.using, has_run=True)
        delivery.context.effects = effects = ClaimedEffects(claim, self._ledger.redact(delivery), repeat, Enclosure)
        output = error = None
        housekeeping.rest(delivery.using)  # it may idle for longer than the database lets it
        try:
            output = self._work(delivery, effects)
        except (HandlerError, TransactionEndedError) as raised:
            error = self._ledger.encoded(self._ledger.failure(delivery, cause_of(raised)))
        store = partial(self._store, delivery, claim)
        try:
            return self._ledger.patiently(delivery, partial(store, output, error), has_run=True)
        except PayloadTooLargeError as large:
            error = self._ledger.encoded(self._ledger.failure(delivery, large))
            return self._ledger.patiently(delivery, partial(store, None, error), has_run=True)

    def _work(self, delivery: Delivery, effects: ClaimedEffects) -> str:
        """Run the handler outside any transaction of ours; what it left uncertain is no success."""
        try:
            result = self._ledger.invoke(delivery, contextvars.copy_context())
        finally:
            left_open = housekeeping.after_task(may_ask=True)
        if left_open:
            raise TransactionEndedError(f"the handler left a transaction open on {', '.join(left_open)}; rolled back")
        if effects.uncertain is not None:
            raise HandlerError from effects.uncertain
        return self._ledger.encode(delivery, result)

    def _store(self, delivery: Delivery, claim: Claim, output: str | None, error: str | None) -> Result:
        """Store an outcome under its claim; a key that has a new owner by now is asked again from the start."""
        try:
            with Enclosure(delivery.using):
                return self._ledger.store(delivery, claim, output=output, error=error)
        except TransactionEndedError:
            logger.warning("the claim was lost; the outcome is not recorded", extra=about(delivery.assignment))
            return Deferred.PARKED

    def _release(self, claim: Claim) -> None:
        """Let others have the key at once instead of when the claim would end."""
        try:
            idempotency.extend([claim], 0)
        except (DatabaseError, InterfaceError):
            logger.info("a claim could not be given up; it will end by itself")

"""Tasks that are not atomic: claim and commit, run for as long as it takes, then store the outcome under the claim."""

from __future__ import annotations

import contextvars
import logging
from functools import partial

from django.db import DatabaseError, InterfaceError

from orbit_django import idempotency
from orbit_django.effects import ClaimedEffects
from orbit_django.exceptions import TransactionEndedError
from orbit_django.logs import about
from orbit_django.verdicts import Claim
from orbit_django.worker import housekeeping
from orbit_django.worker.claims import Claims
from orbit_django.worker.enclosure import Enclosure
from orbit_django.worker.invocation import AbandonedError, HandlerError, cause_of, encode, invoke
from orbit_django.worker.job import Deferred, Job, Result
from orbit_django.worker.ledger import Ledger

logger = logging.getLogger(__name__)


class ClaimedRun:
    """Runs tasks under a claim that is on record while they run."""

    def __init__(self, ledger: Ledger, claims: Claims) -> None:
        self._ledger = ledger
        self._claims = claims

    def run(self, job: Job) -> Result:
        """Return once the outcome is committed; PARKED when the key has another owner by then."""
        claim = self._ledger.patiently(job, partial(self._claim, job))
        if not isinstance(claim, Claim):
            return claim
        self._claims.add(claim)
        try:
            return self._under(claim, job)
        except AbandonedError:
            self._release(claim)
            raise
        finally:
            self._claims.remove(claim)

    def _claim(self, job: Job) -> Claim | Result:
        with Enclosure(job.using):
            verdict = self._ledger.begin(job, self._ledger.settings.claim_seconds)
            return verdict if isinstance(verdict, Claim) else self._ledger.replay(job, verdict)

    def _under(self, claim: Claim, job: Job) -> Result:
        repeat = partial(self._ledger.patience.repeat, job.context, using=job.using, has_run=True)
        job.context.effects = ClaimedEffects(claim, self._ledger.redact(job), repeat)
        output = error = None
        try:
            output = self._work(job)
        except (HandlerError, TransactionEndedError) as raised:
            error = self._ledger.encoded(self._ledger.failure(job, cause_of(raised)))
        return self._ledger.patiently(job, partial(self._store, job, claim, output, error), has_run=True)

    def _work(self, job: Job) -> str:
        """Run the handler outside any transaction of ours."""
        job.runs += 1
        try:
            result = invoke(job.task, job.assignment, job.context, contextvars.copy_context())
        finally:
            left_open = housekeeping.after_task()
        if left_open:
            raise TransactionEndedError(f"the handler left a transaction open on {', '.join(left_open)}; rolled back")
        return encode(job.task, result, job.assignment.token, self._ledger.settings.max_body_bytes)

    def _store(self, job: Job, claim: Claim, output: str | None, error: str | None) -> Result:
        """Store an outcome under its claim; a key that has a new owner by now is asked again from the start."""
        try:
            with Enclosure(job.using):
                record = idempotency.finish(claim, output=output, error=error)
                return self._ledger.append(job, record, error)
        except TransactionEndedError:
            logger.warning("the claim was lost; the outcome is not recorded", extra=about(job.assignment))
            return Deferred.PARKED

    def _release(self, claim: Claim) -> None:
        """Let others have the key at once instead of when the claim would end."""
        try:
            idempotency.extend([claim], 0)
        except (DatabaseError, InterfaceError):
            logger.info("a claim could not be given up; it will end by itself")

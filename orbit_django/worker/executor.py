"""What happens to one assignment: claim the key, run the handler, store the outcome, append the report.

For an atomic task these are one transaction. A failure is recorded in a second one, after the first was rolled
back. When the answer to a commit was lost, the same way is gone again: only the claim can tell what became of it.
"""

from __future__ import annotations

import contextvars
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import TypeVar

from django.db import DatabaseError, InterfaceError, transaction

from orbit_django import idempotency, outbox, payloads
from orbit_django.conf import OrbitSettings
from orbit_django.context import TaskContext
from orbit_django.dialects import dialect_of
from orbit_django.effects import ClaimedEffects
from orbit_django.exceptions import TransactionEndedError
from orbit_django.idempotency import Busy, Claim, Conflict, Key, Stored, Verdict
from orbit_django.logs import about
from orbit_django.models import OutboxMessage
from orbit_django.protocol import Assignment, Code, Contract, Failure
from orbit_django.tasks import Task
from orbit_django.worker import housekeeping
from orbit_django.worker.claims import Claims
from orbit_django.worker.enclosure import Enclosure, Phase
from orbit_django.worker.invocation import AbandonedError, HandlerError, encode, failure_of, invoke
from orbit_django.worker.patience import Patience

logger = logging.getLogger(__name__)

MAX_RUNS = 6  # a handler whose work the database undid is run again at most five times


class Deferred(Enum):
    """Why there is no message to send."""

    PARKED = "parked"  # somebody else runs the key now: ask again later
    DROPPED = "dropped"  # the runtime delivers again, or has ended the attempt itself


Result = OutboxMessage | Deferred
T = TypeVar("T")


@dataclass(slots=True)
class Job:
    """One delivery on its way through the executor."""

    assignment: Assignment
    context: TaskContext
    task: Task
    key: Key
    owner: str = field(default_factory=idempotency.new_owner)
    runs: int = 0  # how often the handler was run for this delivery

    @property
    def using(self) -> str:
        """The database alias of the task."""
        return self.key.using


class Executor:
    """Turns assignments into committed outcomes; safe from many threads."""

    def __init__(
        self, settings: OrbitSettings, tasks: Mapping[Contract, Task], *, claims: Claims, patience: Patience
    ) -> None:
        self._settings = settings
        self._tasks = tasks
        self._claims = claims
        self._patience = patience
        self._origin = outbox.Origin(settings.worker_name(), settings.server)

    def execute(self, assignment: Assignment, context: TaskContext) -> Result:
        """Return the message to send, already committed, or why there is none."""
        task = self._tasks.get(assignment.contract)
        try:
            if task is None:
                return self._unknown(assignment, context)
            job = Job(assignment, context, task, Key.of(assignment, task.using or self._settings.database))
            return self._run_atomic(job) if task.is_atomic else self._run_claimed(job)
        except AbandonedError:
            return Deferred.DROPPED

    def _run_atomic(self, job: Job) -> Result:
        """Run an atomic task until its outcome is committed."""
        failures = 0
        while True:
            enclosure = Enclosure(job.using)
            try:
                result = self._once(job, enclosure)
            except (HandlerError, TransactionEndedError, DatabaseError, InterfaceError) as error:
                failures += 1
                cause = error.__cause__ if isinstance(error, HandlerError) else error
                if not self._is_worth_another_try(job, enclosure, cause):
                    return self._fail(job, self._failure(job, cause))
                self._patience.pause(
                    job.context, failures, cause, using=job.using, has_run=enclosure.phase > Phase.CLAIM
                )
            else:
                self._patience.succeeded()
                return result

    def _once(self, job: Job, enclosure: Enclosure) -> Result:
        """Go the way of an atomic task once, in one transaction."""
        scope = contextvars.copy_context()
        with enclosure:
            verdict = self._begin(job)
            if not isinstance(verdict, Claim):
                return self._replay(job, verdict)
            enclosure.hand_over()
            job.runs += 1
            result = invoke(job.task, job.assignment, job.context, scope)
            output = encode(job.task, result, job.assignment.token, self._settings.max_body_bytes)
            enclosure.take_back()
            record = idempotency.finish(verdict, output=output)
            message = outbox.append(job.assignment, self._origin, using=job.using, record=record)
        enclosure.run_hooks(scope)
        return message

    def _is_worth_another_try(self, job: Job, enclosure: Enclosure, cause: BaseException | None) -> bool:
        """Return whether the same delivery is to be tried again after this error.

        Before the handler, always: nothing has happened. After an unknown commit, always: the claim will tell.
        Otherwise only for what the database undid, and only so often.
        """
        if not isinstance(cause, DatabaseError | InterfaceError):
            return False
        dialect = dialect_of(job.using)
        is_passing = dialect.is_transient(cause) or dialect.is_connection_lost(cause)
        if enclosure.phase is Phase.CLAIM:
            return is_passing
        if enclosure.phase is Phase.COMMIT and not dialect.is_definite(cause):
            housekeeping.discard(job.using)  # the driver may believe that this connection still works
            return True
        is_ours = enclosure.had_errors or enclosure.phase is not Phase.HANDLER
        return is_passing and is_ours and job.runs < MAX_RUNS and job.context.remaining_ms != 0

    def _run_claimed(self, job: Job) -> Result:
        """Run a task that is not atomic: claim, commit, run, store."""
        verdict = self._patiently(job, partial(self._claim, job))
        if not isinstance(verdict, Claim):
            return verdict
        self._claims.add(verdict)
        redact = self._redact(job)
        repeat = partial(self._patience.repeat, job.context, using=job.using, has_run=True)
        job.context.effects = ClaimedEffects(verdict, redact, repeat)
        try:
            output = error = None
            try:
                output = self._work(job)
            except (HandlerError, TransactionEndedError) as raised:
                cause = raised.__cause__ if isinstance(raised, HandlerError) else raised
                error = self._encoded(self._failure(job, cause))
            return self._patiently(job, partial(self._store, job, verdict, output, error), has_run=True)
        except AbandonedError:
            self._release(verdict)
            raise
        finally:
            self._claims.remove(verdict)

    def _release(self, claim: Claim) -> None:
        """Let others have the key at once instead of when the claim would end."""
        try:
            idempotency.extend([claim], 0)
        except (DatabaseError, InterfaceError):
            logger.info("a claim could not be given up; it will end by itself")

    def _claim(self, job: Job) -> Claim | Result:
        with Enclosure(job.using):
            verdict = self._begin(job, lease_seconds=self._settings.claim_seconds)
            return verdict if isinstance(verdict, Claim) else self._replay(job, verdict)

    def _work(self, job: Job) -> str:
        """Run the handler outside any transaction of ours."""
        job.runs += 1
        try:
            result = invoke(job.task, job.assignment, job.context, contextvars.copy_context())
        finally:
            left_open = housekeeping.after_task()
        if left_open:
            raise TransactionEndedError(f"the handler left a transaction open on {', '.join(left_open)}; rolled back")
        return encode(job.task, result, job.assignment.token, self._settings.max_body_bytes)

    def _store(self, job: Job, claim: Claim, output: str | None, error: str | None) -> Result:
        """Store an outcome under its claim; a key that has a new owner by now is asked again from the start."""
        try:
            with Enclosure(job.using):
                record = idempotency.finish(claim, output=output, error=error)
                return outbox.append(job.assignment, self._origin, using=job.using, record=record, error=error)
        except TransactionEndedError:
            logger.warning("the claim was lost; the outcome is not recorded", extra=about(job.assignment))
            return Deferred.PARKED

    def _fail(self, job: Job, failure: Failure) -> Result:
        """Record a failure in a transaction of its own, unless the key has an outcome by now."""
        error = self._encoded(failure)
        try:
            return self._patiently(job, partial(self._store_failure, job, error), has_run=True)
        except DatabaseError:  # this very delivery cannot be recorded; it is reported all the same
            logger.exception("a failure could not be recorded", extra=about(job.assignment))
            return self._patiently(job, partial(self._report_bare, job.assignment, job.using, error), has_run=True)

    def _store_failure(self, job: Job, error: str) -> Result:
        with Enclosure(job.using):
            verdict = self._begin(job)
            if not isinstance(verdict, Claim):
                return self._replay(job, verdict)
            record = idempotency.finish(verdict, error=error)
            return outbox.append(job.assignment, self._origin, using=job.using, record=record, error=error)

    def _unknown(self, assignment: Assignment, context: TaskContext) -> Result:
        """Report a task that this worker does not serve (O186)."""
        name = f"{assignment.task_name} {assignment.contract_version}"
        logger.error("the runtime delivered a task that this worker does not serve", extra=about(assignment))
        error = self._encoded(Failure(Code.UNKNOWN_TASK, f"this worker does not serve {name}", retryable=True))
        step = partial(self._report_bare, assignment, self._settings.database, error)
        return self._patience.repeat(context, step, using=self._settings.database)

    def _report_bare(self, assignment: Assignment, using: str, error: str) -> Result:
        with Enclosure(using):
            present = outbox.find(assignment, using)
            return present or outbox.append(assignment, self._origin, using=using, record=None, error=error)

    def _begin(self, job: Job, lease_seconds: float | None = None) -> Verdict:
        worker_id = self._origin.worker_id
        return idempotency.begin(job.key, owner=job.owner, worker_id=worker_id, lease_seconds=lease_seconds)

    def _replay(self, job: Job, verdict: Stored | Conflict | Busy) -> Result:
        """Append the report of what stands already, under the new token."""
        if isinstance(verdict, Busy):
            transaction.set_rollback(True, using=job.using)
            return Deferred.PARKED
        present = outbox.find(job.assignment, job.using)
        if present is not None:
            return present
        error = verdict.record.error
        if isinstance(verdict, Conflict):
            error = self._encoded(verdict.failure)
            logger.error("an idempotency key was used with another input", extra=about(job.assignment))
        else:
            logger.info("answered from the record", extra=about(job.assignment))
        record = verdict.record
        return outbox.append(job.assignment, self._origin, using=job.using, record=record, error=error)

    def _patiently(self, job: Job, step: Callable[[], T], *, has_run: bool = False) -> T:
        return self._patience.repeat(job.context, step, using=job.using, has_run=has_run)

    def _failure(self, job: Job, cause: BaseException | None) -> Failure:
        cause = cause or RuntimeError("a handler failed without saying why")
        failure = failure_of(cause, job.context, self._redact(job))
        if failure.code == Code.UNHANDLED_EXCEPTION:
            logger.error("a handler failed", exc_info=cause, extra=about(job.assignment))
        return failure

    def _redact(self, job: Job) -> Callable[[str], str]:
        return lambda text: self._settings.redact(text).replace(job.assignment.token, "********")

    def _encoded(self, failure: Failure) -> str:
        return payloads.encode_failure(failure, self._settings.max_body_bytes)

"""What happens to one assignment: claim the key, run the handler, store the outcome, append the report."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Any

from orbit_django.agreement import promising
from orbit_django.conf import OrbitSettings
from orbit_django.context import TaskContext
from orbit_django.dialects import dialect_of
from orbit_django.exceptions import AbandonedError
from orbit_django.logs import SteadyLogger, about
from orbit_django.protocol import Assignment, Code, Contract, Failure, Unreadable
from orbit_django.tasks import Task
from orbit_django.verdicts import Key
from orbit_django.worker import announce
from orbit_django.worker.atomic import AtomicRun
from orbit_django.worker.claimed import ClaimedRun
from orbit_django.worker.claims import Claims
from orbit_django.worker.delivery import Deferred, Delivery, Result
from orbit_django.worker.ledger import CheckReport, Ledger
from orbit_django.worker.patience import Patience
from orbit_django.worker.vitals import UNKNOWN_TASK, Vitals

logger = SteadyLogger(logging.getLogger(__name__))

LONG_SECONDS = 0.05  # receivers of a signal that take longer may use up what is left of the hold
FAULTS = (Exception, SystemExit, KeyboardInterrupt, GeneratorExit)  # no delivery must come for ever for one of them
NAMING = ("$.task_name", "$.contract_version")  # without them nobody knows who could read the rest
CANNOT = "this worker cannot execute the delivery; its log says why"


class Executor:
    """Turns assignments into committed outcomes; safe from many threads."""

    def __init__(
        self,
        settings: OrbitSettings,
        tasks: Mapping[Contract, Task],
        *,
        claims: Claims,
        patience: Patience,
        vitals: Vitals | None = None,
        check_report: CheckReport | None = None,
    ) -> None:
        self._tasks = promising(tasks, settings.contracts)
        self._database = settings.database
        self.ledger = Ledger(settings, patience, vitals, check_report=check_report)
        self._atomic = AtomicRun(self.ledger)
        self._claimed = ClaimedRun(self.ledger, claims)

    def handler_of(self, assignment: Assignment) -> Callable[..., Any] | None:
        """Return the function that serves a task, None when it is not served here."""
        task = self._tasks.get(assignment.contract)
        return None if task is None else task.function

    def execute(self, assignment: Assignment, context: TaskContext) -> Result:
        """Return the message to send, already committed, or why there is none."""
        task = self._tasks.get(assignment.contract)
        try:
            odd = assignment.input if isinstance(assignment.input, Unreadable) else None
            if odd is not None and (task is not None or odd.path in NAMING):
                return self._unreadable(assignment, context, odd, (task and task.using) or self._database)
            if task is None:
                return self._unknown(assignment, context)
            delivery = Delivery(assignment, context, task, Key.of(assignment, task.using or self._database))
            result = self._counted(delivery) if assignment.redelivery else self.run(delivery)
            return self._told(result, delivery.way, delivery.code, assignment, context)
        except AbandonedError:
            return Deferred.DROPPED
        except FAULTS:  # of ours, or of a delivery that the database cannot keep
            logger.exception("a delivery could not be executed", extra=about(assignment))
            failure = Failure(Code.UNHANDLED_EXCEPTION, CANNOT, retryable=True)
            return self._bare(assignment, context, self._database, failure)

    def run(self, delivery: Delivery) -> Result:
        """Go the way that the task's declaration asks for."""
        return self._atomic.run(delivery) if delivery.task.is_atomic else self._claimed.run(delivery)

    def _counted(self, delivery: Delivery) -> Result:
        """Run a redelivery, counted in case that this process does not survive it.

        An atomic task keeps its turn as a writer between the count and the run: one that only waits for its turn has
        not begun.
        """
        with dialect_of(delivery.using).writing() if delivery.task.is_atomic else nullcontext():
            return self._run_counted(delivery)

    def _run_counted(self, delivery: Delivery) -> Result:
        poison = self.ledger.count_run(delivery)
        if poison is not None:
            logger.error("a task ended its process too often", extra=about(delivery.assignment))
            return self.ledger.fail(delivery, poison.failure)
        result: Result = Deferred.PARKED
        try:
            result = self.run(delivery)
        finally:
            if result is Deferred.PARKED:  # nothing began here, or it ended in order
                self.ledger.discount_run(delivery)
        return result

    def _unknown(self, assignment: Assignment, context: TaskContext) -> Result:
        """Report a task that this worker does not serve (O186)."""
        logger.error("the runtime delivered a task that this worker does not serve", extra=about(assignment))
        text = f"this worker does not serve {assignment.task_name} {assignment.contract_version}"
        failure = Failure(Code.UNKNOWN_TASK, text, retryable=True)
        return self._bare(assignment, context, self._database, failure)

    def _unreadable(self, assignment: Assignment, context: TaskContext, odd: Unreadable, using: str) -> Result:
        """Report a field that nobody will ever read; no record belongs to it, since it cannot be compared (O347)."""
        text = f"the {odd.name} cannot be read: {odd.why}"
        logger.error("a task has a field that cannot be read", extra=about(assignment, error=text))
        details = {"path": odd.path, "fields": {odd.path: text}}
        failure = Failure(Code.INVALID_INPUT, text, retryable=False, details=details)
        return self._bare(assignment, context, using, failure)

    def _bare(self, assignment: Assignment, context: TaskContext, using: str, failure: Failure) -> Result:
        """Report a failure that no record belongs to, and count it."""
        result = self.ledger.report_bare(assignment, context, using, self.ledger.encoded(failure))
        return self._told(result, "", failure.code, assignment, context)

    def _told(self, result: Result, way: str, code: str, assignment: Assignment, context: TaskContext) -> Result:
        """Have a committed outcome counted and announced."""
        if isinstance(result, Deferred):
            return result
        outcome = way or result.kind
        name = assignment.task_name if assignment.contract in self._tasks else UNKNOWN_TASK
        self.ledger.vitals.finished(name, outcome, code)
        began = self.ledger.patience.now()
        announce.finished(context, self.handler_of(assignment), outcome, code)
        return self.ledger.still_held(result, began, LONG_SECONDS)

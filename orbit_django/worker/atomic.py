"""Atomic tasks: claim, handler, outcome and report in one transaction.

A failure is recorded in a second one, after the first was rolled back. When the answer to a commit was lost, the
same way is gone again: only the claim can tell what became of it.
"""

from __future__ import annotations

import contextvars

from django.db import DatabaseError, InterfaceError

from orbit_django.dialects import dialect_of
from orbit_django.exceptions import TransactionEndedError
from orbit_django.verdicts import Claim
from orbit_django.worker import housekeeping
from orbit_django.worker.delivery import Delivery, Result
from orbit_django.worker.enclosure import Enclosure, Phase
from orbit_django.worker.invocation import HandlerError, cause_of
from orbit_django.worker.ledger import Ledger

MAX_RUNS = 6  # a handler whose work the database undid is run again at most five times


class AtomicRun:
    """Runs tasks that share one transaction with their record and their report."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def run(self, delivery: Delivery) -> Result:
        """Return once the outcome is committed."""
        failures = 0
        while True:
            enclosure = Enclosure(delivery.using)
            try:
                result = self._once(delivery, enclosure)
            except (HandlerError, TransactionEndedError, DatabaseError, InterfaceError) as error:
                failures += 1
                cause = cause_of(error)
                if not self._is_worth_another_try(delivery, enclosure, cause):
                    return self._ledger.fail(delivery, self._ledger.failure(delivery, cause))
                has_run = enclosure.phase > Phase.CLAIM
                self._ledger.patience.pause(delivery.context, failures, cause, using=delivery.using, has_run=has_run)
            else:
                self._ledger.patience.succeeded()
                return result

    def _once(self, delivery: Delivery, enclosure: Enclosure) -> Result:
        """Go the way of an atomic task once."""
        scope = contextvars.copy_context()
        with enclosure:
            verdict = self._ledger.begin(delivery)
            if not isinstance(verdict, Claim):
                return self._ledger.replay(delivery, verdict)
            enclosure.hand_over()
            result = self._ledger.invoke(delivery, scope)
            output = self._ledger.encode(delivery, result)
            enclosure.take_back()
            began = self._ledger.patience.now()
            message = self._ledger.succeed(delivery, verdict, output)
        enclosure.run_hooks(scope)
        return self._ledger.still_held(message, began)

    def _is_worth_another_try(self, delivery: Delivery, enclosure: Enclosure, cause: BaseException) -> bool:
        """Return whether the same delivery is to be tried again after this error.

        Before the handler, always: nothing has happened. Otherwise so often, after an unknown commit, of which the
        claim will tell, and for what the database undid.
        """
        if not isinstance(cause, DatabaseError | InterfaceError):
            return False
        dialect = dialect_of(delivery.using)
        is_passing = dialect.is_transient(cause) or dialect.is_connection_lost(cause)
        if enclosure.phase is Phase.CLAIM:
            return is_passing
        if enclosure.phase is Phase.COMMIT and not dialect.is_definite(cause):
            housekeeping.discard(delivery.using)  # the driver may believe that this connection still works
            return delivery.runs < MAX_RUNS  # after that the claim tells as well, before a failure is stored
        is_ours = enclosure.had_errors or enclosure.phase is not Phase.HANDLER
        return is_passing and is_ours and delivery.runs < MAX_RUNS and delivery.context.remaining_ms != 0

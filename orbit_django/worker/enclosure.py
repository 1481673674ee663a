"""The transaction around an atomic handler: opened, watched, and closed only if it still is the same one.

Leaving Django's atomic block is silent in most cases in which a handler broke it, so every sign is looked at: the
rollback flag, the blocks that are open, the guard of the claim, and a hook that fires when the commit happened.
"""

from __future__ import annotations

import contextvars
import logging
import sys
from enum import IntEnum
from types import TracebackType
from typing import Any, Self

from django.db import connections, transaction

from orbit_django.dialects import of_connection
from orbit_django.exceptions import TransactionEndedError
from orbit_django.forks import one_process
from orbit_django.logs import SteadyLogger
from orbit_django.worker import housekeeping

logger = SteadyLogger(logging.getLogger(__name__))


class Phase(IntEnum):
    """How far a transaction has come."""

    CLAIM = 1  # the handler has not run
    HANDLER = 2
    FINISH = 3  # the handler has ended, nothing of the user's runs any more
    COMMIT = 4  # from here on nobody knows what a lost connection leaves behind


class Enclosure:
    """One transaction on one alias."""

    def __init__(self, using: str) -> None:
        self._using = using
        self._blocks: list[Any] = []
        self._hooks: list[Any] = []
        self._is_committed = False
        self.phase = Phase.CLAIM
        self.had_errors = False  # whether the database refused something on this connection

    def __enter__(self) -> Self:
        """Open the transaction."""
        connection = self._connection = connections[self._using]
        self._is_outermost = not connection.in_atomic_block
        turn = of_connection(connection).writing()
        turn.__enter__()
        try:
            opened = transaction.atomic(self._using)
            opened.__enter__()
        except BaseException:
            turn.__exit__(*sys.exc_info())
            raise
        self._turn, self._opened = turn, opened
        connection.errors_occurred = False
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Commit, or roll back on an error; raise TransactionEndedError for a commit that was none."""
        is_finished = kind is None and self.phase >= Phase.FINISH
        if kind is None:
            self.phase = Phase.COMMIT
        self._restore()
        self.had_errors = self._connection.errors_occurred
        try:
            self._opened.__exit__(kind, error, trace)
        finally:
            self._turn.__exit__(None, None, None)
        if is_finished and self._is_outermost and not self._is_committed:
            raise TransactionEndedError("the transaction was rolled back when it should have been committed")

    def hand_over(self) -> None:
        """Let the handler run."""
        self._blocks = list(self._connection.atomic_blocks)
        self.phase = Phase.HANDLER

    def take_back(self) -> None:
        """Look at what the handler left; raise TransactionEndedError when the transaction is not as it was.

        Hooks for after the commit are set aside: one that raises must not look like a failed commit, nor keep the
        others from running.
        """
        if self._restore():
            raise TransactionEndedError("the handler replaced the connection that its transaction belongs to")
        connection = self._connection
        if connection.atomic_blocks != self._blocks:
            self._abandon()
            raise TransactionEndedError("the handler left an atomic block open, or left the one it was called in")
        if connection.get_rollback():
            raise TransactionEndedError(
                "the transaction of this task can not be committed: the handler caught an error of the database "
                "inside it, marked it for rollback, or closed its connection; catch such errors around a nested "
                "transaction.atomic()"
            )
        if self._is_outermost:
            self._hooks, connection.run_on_commit = connection.run_on_commit, []
            connection.on_commit(self._committed)
        is_close = self._is_outermost and of_connection(connection).can_commit_along()
        self.phase = Phase.COMMIT if is_close else Phase.FINISH

    def _abandon(self) -> None:
        """Get rid of what the handler left open; inside somebody else's transaction the connection has to stay."""
        count = len(self._blocks)
        if not self._is_outermost and self._connection.atomic_blocks[:count] == self._blocks:
            housekeeping.unwind(self._using, count)
        else:
            housekeeping.discard(self._using)
            self._connection = connections[self._using]

    def _restore(self) -> bool:
        """Put the connection back that the transaction belongs to; return whether it was another one."""
        other = connections[self._using]
        if other is self._connection:
            return False
        other.close()
        connections[self._using] = self._connection
        return True

    def run_hooks(self, scope: contextvars.Context) -> None:
        """Run what the handler registered for after the commit, each on its own."""
        for _, hook, *_ in self._hooks:
            try:
                with one_process(), housekeeping.wrapped_as_before():
                    scope.run(hook)
            except BaseException:
                logger.exception("a hook that a handler registered with on_commit failed")

    def _committed(self) -> None:
        self._is_committed = True

"""One life of a worker process, played in a thread of its own, which can be ended at any point of a task's way.

The end is an exception that nothing on the way may catch and go on: from then on every statement of this life raises
it again, and its connections are cut, so that the databases roll back as they do for a process that died.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from asgiref.sync import iscoroutinefunction
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created

from orbit_django import conf
from orbit_django.exceptions import AbandonedError
from orbit_django.models import OutboxMessage
from orbit_django.protocol import Assignment, Kind, Receipt
from orbit_django.tasks import Task
from orbit_django.testing.desk import Desk
from orbit_django.testing.transport import RecordingTransport
from orbit_django.worker import housekeeping
from orbit_django.worker.delivery import Deferred, Result

LONG_SECONDS = 60.0


class DeathError(AbandonedError):
    """The process ends here; no ``Exception``, so that no handler takes it for one of its own troubles."""


class Step(Enum):
    """Points of a task's way that are no statements, in their order."""

    BEGUN = "as the handler began"
    RETURNED = "after the handler had returned, before its outcome was committed"
    COMMITTED = "right after the commit, before what the handler had registered with on_commit was run"
    UNSENT = "after the commit, before the message was sent"
    UNSETTLED = "after the message was sent, before the answer was filed"


Point = Step | int  # an int: after so many statements


@dataclass(frozen=True, slots=True)
class Statement:
    """One SQL statement of a life."""

    sql: str
    is_handlers: bool  # whether the handler was at work

    def __str__(self) -> str:
        words = " ".join(self.sql.split())
        place = "in the handler" if self.is_handlers else "in the ledger"
        return f"{place}: {words[:97] + '...' if len(words) > 100 else words}"


class Life:
    """A process that takes one delivery, and dies at ``end`` if that is given; ``at`` is called on its way."""

    def __init__(
        self,
        task: Task,
        settings: conf.OrbitSettings,
        end: Point | None = None,
        at: dict[Step, Callable[[], object]] | None = None,
    ) -> None:
        self._end = end
        self._at = at or {}
        self._desk = Desk(self._observed(task), settings, _Line(self))
        self._connections: list[BaseDatabaseWrapper] = []
        self._thread: threading.Thread | None = None
        self._is_in_handler = False
        self._error: BaseException | None = None
        self._result: Result = Deferred.DROPPED
        self.has_died = False
        self.statements: list[Statement] = []
        self.is_telling = threading.Event()  # its handler has begun, or all is over

    def start(self, assignment: Assignment) -> None:
        """Begin to work on a delivery."""
        self._thread = threading.Thread(target=self._live, args=(assignment,), name="orbit-life", daemon=True)
        self._thread.start()

    def join(self) -> Result:
        """Return what came of the delivery, once this life is over; raise what went wrong in it."""
        if self._thread is not None:
            self._thread.join(LONG_SECONDS)
            if self._thread.is_alive():
                raise AssertionError(f"the handler has not ended within {LONG_SECONDS:.0f} s")
        if self._error is not None:
            raise self._error
        return self._result

    def deliver(self, assignment: Assignment) -> Result:
        """Work on a delivery and return what came of it."""
        self.start(assignment)
        return self.join()

    def reach(self, step: Step) -> None:
        """Come to a point of the way; raise DeathError if it is the last one."""
        self._at.get(step, int)()
        if self._end is step:
            self._die()

    def _live(self, assignment: Assignment) -> None:
        me = threading.get_ident()

        def opened(connection: BaseDatabaseWrapper, **kwargs: object) -> None:
            if threading.get_ident() == me:
                self._watch(connection)

        connection_created.connect(opened, weak=False, dispatch_uid=self)
        try:
            for connection in connections.all():
                self._watch(connection)
            self._work(assignment)
        except DeathError:
            pass
        except BaseException as error:  # noqa: BLE001  (raised again in the thread of the test)
            self._error = error
        finally:
            connection_created.disconnect(dispatch_uid=self)
            for alias in connections:
                housekeeping.discard(alias)
            self.is_telling.set()

    def _work(self, assignment: Assignment) -> None:
        result = self._desk.execute(assignment)
        if self.has_died:
            return
        self._result = result
        if isinstance(result, OutboxMessage):
            self.reach(Step.UNSENT)
            self._desk.report(result)

    def _watch(self, connection: BaseDatabaseWrapper) -> None:
        if connection not in self._connections:
            self._connections.append(connection)
            connection.execute_wrappers.append(self._execute)

    def _execute(self, execute: Callable[..., Any], sql: Any, params: Any, many: bool, context: Any) -> Any:
        if self.has_died:
            raise DeathError
        result = execute(sql, params, many, context)
        self.statements.append(Statement(str(sql), self._is_in_handler))
        if self._end == len(self.statements):
            context["cursor"].close()  # a statement that still has rows to give would keep its transaction alive
            self._die()
        return result

    def _observed(self, task: Task) -> Task:
        """Return the task with a handler that tells when it begins and when it has returned."""
        function = task.function

        @functools.wraps(function)
        def plain(*arguments: Any) -> Any:
            self._enter()
            result = function(*arguments)
            self._leave()
            return result

        @functools.wraps(function)
        async def asynchronous(*arguments: Any) -> Any:
            self._enter()
            result = await function(*arguments)
            self._leave()
            return result

        return replace(task, function=asynchronous if iscoroutinefunction(function) else plain)

    def _enter(self) -> None:
        self._is_in_handler = True
        self.is_telling.set()
        self.reach(Step.BEGUN)

    def _leave(self) -> None:
        self._is_in_handler = False
        self.reach(Step.RETURNED)
        if self._end is Step.COMMITTED:
            for connection in self._connections:
                connection.run_on_commit = []  # hooks die with their process

    def _die(self) -> None:
        self.has_died = True
        for connection in self._connections:
            _cut(connection)
        raise DeathError


class _Line(RecordingTransport):
    """A runtime that accepts every report of a life, after which the life may end."""

    def __init__(self, life: Life) -> None:
        super().__init__()
        self._life = life

    def send(self, kind: Kind, body: str) -> Receipt:
        receipt = super().send(kind, body)
        self._life.reach(Step.UNSETTLED)
        return receipt


def _cut(connection: BaseDatabaseWrapper) -> None:
    """Close a connection as the end of its process does, in whatever state it is."""
    raw = connection.connection
    if raw is None:
        return
    for end in (raw.rollback, raw.close):  # a server would notice the second alone a little later
        with contextlib.suppress(Exception):  # a driver says in its own words that it was closed already
            end()
    if connection.in_atomic_block:
        connection.closed_in_transaction = connection.needs_rollback = True
    else:
        connection.connection = None

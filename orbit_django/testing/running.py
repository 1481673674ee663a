"""``run_task``: one handler through the real ledger, in the caller's thread and transaction, with no network."""

from __future__ import annotations

from typing import Any

from django.db import connections

from orbit_django import conf
from orbit_django.exceptions import ConfigurationError
from orbit_django.models import OutboxMessage
from orbit_django.testing.deliveries import (
    assignment_of,
    find_task,
    is_in_open_block,
    leaving_no_file,
    need_database,
    warn_of_input,
)
from orbit_django.testing.desk import Desk
from orbit_django.testing.report import TaskReport
from orbit_django.worker.delivery import Deferred


def run_task(name: str, input: Any = None, **assignment: Any) -> TaskReport:
    """Deliver a task once, as a worker would, and return what it reported.

    Without more it is the first delivery of a step of its own. ``assignment`` says fields of it: ``attempt``,
    ``redelivery``, ``timeout_ms``, ``step_id``; the ``idempotency_key`` of an earlier report delivers that step
    again. The report is accepted, as by a runtime. Hooks that the handler registered with ``on_commit`` run, in a
    TestCase too. A failing handler is a report, not an exception; an input that breaks the task's contract in CONTRACTS
    is a UserWarning.

    Raises LookupError for a name without a handler, TypeError for a field that an assignment does not have,
    ConfigurationError in a test that may not use the database.
    """
    __tracebackhide__ = True
    task = find_task(name, assignment.get("contract_version"))
    settings = conf.load()
    desk = Desk(task, settings)
    need_database("run_task", desk.using)
    if not task.is_atomic and is_in_open_block(desk.using):
        raise ConfigurationError(f"{name} has atomic=False, so it cannot be run inside transaction.atomic()")
    delivery = assignment_of(task, input, assignment)
    warn_of_input(delivery, settings.contracts)
    count = len(connections[desk.using].run_on_commit)
    with leaving_no_file([desk.using]):
        result = desk.execute(delivery)
        if not isinstance(result, OutboxMessage):
            raise AssertionError(_without_report(name, result))
        is_replayed = desk.is_replayed
        desk.report(result)
    _run_hooks(desk.using, count)
    return TaskReport.of(result, is_replayed=is_replayed)


def _without_report(name: str, why: Deferred) -> str:
    if why is Deferred.PARKED:
        return f"{name} was not run: another run holds its idempotency key; a worker would ask again later"
    return f"{name} reported nothing: the database did not take it, or its handler stopped because it was told to"


def _run_hooks(using: str, count: int) -> None:
    """Run the hooks that came since, where the commit that they wait for never comes: inside a TestCase."""
    connection = connections[using]
    if not connection.in_atomic_block or is_in_open_block(using):
        return
    hooks, connection.run_on_commit = connection.run_on_commit[count:], connection.run_on_commit[:count]
    for _, hook, *_ in hooks:
        hook()

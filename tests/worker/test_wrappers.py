"""Wrappers of statements that a task leaves on its thread's connections do not reach the next one."""

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection, connections, transaction

from orbit_django import signals
from orbit_django.models import OutboxMessage
from tests.ledger import Desk, charge

pytestmark = [pytest.mark.databases, pytest.mark.django_db(transaction=True, databases=["default", "other"])]


def refuse(*_: Any) -> None:
    raise RuntimeError("no statement passes")


def allow(execute: Callable[..., Any], *statement: Any) -> Any:
    return execute(*statement)


def appends(input: Any, ctx: Any) -> dict[str, Any]:
    connection.execute_wrappers.append(refuse)
    return {}


def replaces(input: Any, ctx: Any) -> dict[str, Any]:
    connection.execute_wrappers = [refuse]
    return {}


def fails(input: Any, ctx: Any) -> dict[str, Any]:
    connection.execute_wrappers.insert(0, refuse)
    raise ValueError("no")


def enters(input: Any, ctx: Any) -> dict[str, Any]:
    connection.execute_wrapper(refuse).__enter__()
    return {}


@pytest.mark.promise("W6")
@pytest.mark.parametrize("is_atomic", [True, False])
@pytest.mark.parametrize(("handler", "kind"), [(appends, "complete"), (replaces, "complete"), (enters, "complete"),
                                               (fails, "fail")])  # fmt: skip
def test_what_a_handler_adds_ends_with_it(handler, kind, is_atomic):
    with connection.execute_wrapper(allow):
        assert Desk(handler, is_atomic=is_atomic).deliver().kind == kind
        assert connection.execute_wrappers == [allow]
    assert Desk(charge).deliver(idempotency_key="next").kind == "complete"
    assert connection.execute_wrappers == []


@pytest.mark.promise("W6")
def test_other_databases_are_looked_at_as_well():
    connections["other"].ensure_connection()
    Desk(lambda input, ctx: connections["other"].execute_wrappers.append(refuse)).deliver()
    assert connections["other"].execute_wrappers == []


@pytest.mark.promise("W6")
def test_what_a_hook_adds_ends_with_it():
    desk = Desk(lambda input, ctx: transaction.on_commit(lambda: appends(input, ctx)))
    assert desk.deliver().kind == "complete"
    assert connection.execute_wrappers == []


@pytest.mark.promise("W6")
def test_what_a_receiver_adds_ends_with_it():
    def receive(**_: Any) -> None:
        connection.execute_wrappers.append(refuse)

    signals.task_finished.connect(receive)
    try:
        message = Desk(charge).deliver()
    finally:
        signals.task_finished.disconnect(receive)
    assert connection.execute_wrappers == []
    assert OutboxMessage.objects.get().pk == message.pk

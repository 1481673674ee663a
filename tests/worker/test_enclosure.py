import contextvars
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db import DatabaseError, IntegrityError, connection, transaction

from orbit_django.exceptions import TransactionEndedError
from orbit_django.models import OutboxMessage
from orbit_django.worker.enclosure import Enclosure, Phase
from tests.testapp.models import Charge
from tests.worker.breaking import (
    Handler,
    asks_for_a_transaction_of_its_own,
    charge,
    closes_its_connection,
    closes_its_connection_and_goes_on,
    closes_old_connections,
    commits,
    commits_and_begins_anew,
    commits_and_marks_it_as_before,
    ends_the_process,
    ends_with_an_error,
    execute,
    leaves_a_block_open,
    leaves_a_block_open_that_cannot_be_committed,
    leaves_the_block_that_it_was_called_in,
    marks_for_rollback,
    raw,
    rolls_back,
    swallows_an_integrity_error,
)

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.databases, pytest.mark.promise("E1")]


@pytest.mark.parametrize(
    "handler",
    [
        swallows_an_integrity_error,
        marks_for_rollback,
        rolls_back,
        closes_its_connection,
        closes_its_connection_and_goes_on,
        closes_old_connections,
        leaves_a_block_open,
        leaves_a_block_open_that_cannot_be_committed,
        asks_for_a_transaction_of_its_own,
        ends_with_an_error,
        ends_the_process,
    ],
)
def test_a_transaction_that_was_not_committed_is_never_reported_as_a_success(handler: Handler) -> None:
    assert execute(handler) == ("fail", "UNHANDLED_EXCEPTION", 0, "failed")
    assert Group.objects.count() == 0
    assert execute(charge, attempt=2) == ("complete", "", 1, "succeeded")


@pytest.mark.parametrize("handler", [swallows_an_integrity_error, marks_for_rollback, closes_its_connection])
def test_the_failure_says_what_to_look_for(handler: Handler) -> None:
    execute(handler)

    assert "catch such errors around a nested transaction.atomic()" in OutboxMessage.objects.get().body


@pytest.mark.parametrize(
    "handler",
    [commits, commits_and_begins_anew, commits_and_marks_it_as_before, leaves_the_block_that_it_was_called_in],
)
def test_a_transaction_that_the_handler_ended_is_detected(handler: Handler) -> None:
    assert execute(handler) == ("fail", "UNHANDLED_EXCEPTION", 1, "failed")
    assert "transaction" in OutboxMessage.objects.get().body or "atomic" in OutboxMessage.objects.get().body
    assert execute(charge, attempt=2) == ("complete", "", 2, "succeeded")


def test_writes_after_a_raw_rollback_are_not_reported_as_a_success() -> None:
    def handler(given: Any) -> None:
        rolls_back(given)
        charge()

    assert execute(handler)[:2] == ("fail", "UNHANDLED_EXCEPTION")


def test_a_statement_that_commits_implicitly_is_detected() -> None:
    def handler(given: Any) -> None:
        charge()
        raw("CREATE TABLE testapp_passing (id integer)")

    try:
        found = execute(handler)
    finally:
        raw("DROP TABLE testapp_passing")
    if connection.features.can_rollback_ddl:
        assert found == ("complete", "", 1, "succeeded")
    else:
        assert found == ("fail", "UNHANDLED_EXCEPTION", 1, "failed")


def test_a_swallowed_error_of_raw_sql_is_judged_by_what_the_database_did() -> None:
    def handler(given: Any) -> None:
        charge()
        try:
            raw("SELECT * FROM no_such_table")
        except DatabaseError:
            return

    kind, _, charges, record = execute(handler)
    assert (kind, charges, record) in {("complete", 1, "succeeded"), ("fail", 0, "failed")}


def test_an_error_that_was_caught_around_a_block_of_its_own_costs_nothing() -> None:
    def handler(given: Any) -> None:
        charge()
        for _ in range(2):
            try:
                with transaction.atomic():
                    Group.objects.create(name="unique")
            except IntegrityError:
                return

    assert execute(handler) == ("complete", "", 1, "succeeded")
    assert Group.objects.count() == 1


def test_inside_somebodys_transaction_its_end_decides() -> None:
    seen: list[int] = []
    with transaction.atomic():
        with Enclosure("default") as enclosure:
            enclosure.hand_over()
            charge()
            transaction.on_commit(lambda: seen.append(1))
            enclosure.take_back()
        enclosure.run_hooks(contextvars.copy_context())
        assert (Charge.objects.count(), seen) == (1, [])
        transaction.set_rollback(True)

    assert (Charge.objects.count(), seen) == (0, [])


def go(enclosure: Enclosure, *steps: Callable[[], object]) -> None:
    with enclosure:
        for step in steps:
            step()


def test_a_commit_that_was_none_is_an_error() -> None:
    enclosure = Enclosure("default")
    spoil = partial(transaction.set_rollback, True)
    with pytest.raises(TransactionEndedError, match="rolled back"):
        go(enclosure, enclosure.hand_over, charge, enclosure.take_back, spoil)

    assert enclosure.phase is Phase.COMMIT
    assert Charge.objects.count() == 0


def test_it_knows_how_far_it_came_and_whether_the_database_refused_something() -> None:
    enclosure = Enclosure("default")
    assert enclosure.phase is Phase.CLAIM
    with pytest.raises(DatabaseError):
        go(enclosure, enclosure.hand_over, lambda: raw("SELECT * FROM no_such_table"))

    assert (enclosure.phase, enclosure.had_errors) == (Phase.HANDLER, True)
    go(enclosure, charge)
    assert (enclosure.phase, enclosure.had_errors) == (Phase.COMMIT, False)
    assert Charge.objects.count() == 1

import contextvars
import json
import logging
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db import DatabaseError, IntegrityError, close_old_connections, connection, transaction

from orbit_django.conf import OrbitSettings
from orbit_django.exceptions import TransactionEndedError
from orbit_django.models import IdempotencyRecord, OutboxMessage
from orbit_django.worker import housekeeping
from orbit_django.worker.claims import Claims
from orbit_django.worker.enclosure import Enclosure, Phase
from orbit_django.worker.executor import Executor
from orbit_django.worker.gate import DatabaseGate
from orbit_django.worker.patience import Patience
from tests.testapp.models import Charge
from tests.worker.words import CHARGE, NoWait, TickingClock, assignment, context, task

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.databases, pytest.mark.promise("E1")]

Handler = Callable[[Any], Any]
NAME: contextvars.ContextVar[str] = contextvars.ContextVar("NAME", default="nobody")


def execute(function: Handler, attempt: int = 1) -> tuple[str, str, int, str]:
    """Execute one attempt as a poll loop does; return kind of report, error code, charges committed, record."""
    token = f"token-{attempt}"
    patience = Patience(TickingClock(0.0), DatabaseGate(), stop=NoWait(), halt=NoWait())
    served = {CHARGE: task(function)}
    executor = Executor(OrbitSettings(worker_id="shop-1"), served, claims=Claims(30), patience=patience)
    housekeeping.before_task()
    executor.execute(assignment(token, attempt=attempt), context(token, attempt=attempt))
    assert housekeeping.after_task() == []
    stored = OutboxMessage.objects.get(token=token)
    code = json.loads(stored.body)["error_code"] if stored.kind == "fail" else ""
    return stored.kind, code, Charge.objects.count(), IdempotencyRecord.objects.get().status


def raw(*statements: str) -> None:
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def charge(given: Any = None) -> dict[str, str]:
    Charge.objects.create(key="e-1/charge", amount=100)
    return {"charge": "c-1"}


def swallows_an_integrity_error(given: Any) -> None:
    charge()
    for _ in range(2):
        try:
            Group.objects.create(name="unique")
        except IntegrityError:
            return


def marks_for_rollback(given: Any) -> None:
    charge()
    transaction.set_rollback(True)


def rolls_back(given: Any) -> None:
    charge()
    raw("ROLLBACK")


def closes_its_connection(given: Any) -> None:
    charge()
    connection.close()


def closes_old_connections(given: Any) -> None:
    charge()
    close_old_connections()  # Django closes a connection whose autocommit is not what the settings say


def closes_its_connection_and_goes_on(given: Any) -> None:
    closes_its_connection(given)
    charge()


def leaves_a_block_open(given: Any) -> None:
    transaction.atomic().__enter__()
    charge()


def leaves_a_block_open_that_cannot_be_committed(given: Any) -> None:
    leaves_a_block_open(given)
    transaction.set_rollback(True)


def asks_for_a_transaction_of_its_own(given: Any) -> None:
    charge()
    with transaction.atomic(durable=True):
        charge()


def ends_with_an_error(given: Any) -> None:
    charge()
    raise ValueError("no")


def ends_the_process(given: Any) -> None:
    charge()
    raise SystemExit(0)


def commits(given: Any) -> None:
    charge()
    raw("COMMIT")


def commits_and_begins_anew(given: Any) -> None:
    charge()
    raw("COMMIT", "BEGIN")


def commits_and_marks_it_as_before(given: Any) -> None:
    charge()
    raw("COMMIT", "BEGIN", "SAVEPOINT mine")


def leaves_the_block_that_it_was_called_in(given: Any) -> None:
    charge()
    transaction.atomic().__exit__(None, None, None)


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


def test_hooks_run_after_the_commit_each_on_its_own(caplog: pytest.LogCaptureFixture) -> None:
    seen: list[tuple[str, int, bool]] = []

    def note() -> None:
        record = IdempotencyRecord.objects.get()
        seen.append((record.status, Charge.objects.count(), connection.in_atomic_block))

    def fail() -> None:
        raise SystemExit("a hook")

    def handler(given: Any) -> dict[str, str]:
        for hook in (note, fail, lambda: 1 / 0, note):
            transaction.on_commit(hook)
        return charge()

    assert execute(handler) == ("complete", "", 1, "succeeded")
    assert seen == [("succeeded", 1, False)] * 2
    logged = [record.exc_info[0] for record in caplog.records if record.levelno == logging.ERROR]
    assert logged == [SystemExit, ZeroDivisionError]


def test_hooks_see_the_context_of_their_handler_and_leave_nothing_behind() -> None:
    seen: list[str] = []

    def handler(given: Any) -> None:
        NAME.set("the handler")
        transaction.on_commit(lambda: seen.append(NAME.get()))

    execute(handler)
    assert (seen, NAME.get()) == (["the handler"], "nobody")


@pytest.mark.parametrize("handler", [ends_with_an_error, marks_for_rollback, closes_its_connection, rolls_back])
def test_hooks_of_a_transaction_that_was_rolled_back_do_not_run(handler: Handler) -> None:
    seen: list[int] = []

    def hooked(given: Any) -> None:
        transaction.on_commit(lambda: seen.append(1))
        handler(given)

    execute(hooked)
    assert seen == []


def test_hooks_of_a_block_that_was_rolled_back_do_not_run() -> None:
    seen: list[int] = []

    def handler(given: Any) -> None:
        with transaction.atomic():
            transaction.on_commit(lambda: seen.append(1))
            transaction.set_rollback(True)
        transaction.on_commit(lambda: seen.append(2))

    assert execute(handler)[0] == "complete"
    assert seen == [2]


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

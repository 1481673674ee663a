"""What a handler that is not atomic does to transactions: what was not committed is no success."""

from contextlib import suppress

import pytest
from django.db import DatabaseError, connection, connections, transaction

from orbit_django.exceptions import EffectUncertainError
from orbit_django.models import Effect, IdempotencyRecord
from orbit_django.protocol import Kind
from tests.ledger import Desk, charge, sent
from tests.testapp.models import Charge

pytestmark = [pytest.mark.databases, pytest.mark.django_db(transaction=True), pytest.mark.promise("E1", "E10")]


def desk(handler):
    return Desk(handler, is_atomic=False)


def say(*statements):
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def catch_an_error():
    with suppress(DatabaseError):
        say("SELECT * FROM no_such_table")
    transaction.set_rollback(True)


BREAKS = {
    "rolled back": lambda: say("ROLLBACK"),
    "begun anew": lambda: say("ROLLBACK", "BEGIN"),
    "rolled back by the driver": lambda: connection.connection.rollback() or None,
    "marked for rollback": lambda: transaction.set_rollback(True),
    "broken": catch_an_error,
    "left in a block": lambda: transaction.atomic().__enter__(),
    "closed": lambda: connection.close() or None,
}


@pytest.mark.parametrize("how", BREAKS)
def test_work_that_was_not_committed_is_no_success_and_is_done_again(how):
    def work(ctx):
        charge({"amount": 1}, ctx)
        if served.runs == 1:
            BREAKS[how]()
        return {"n": served.runs}

    served = desk(lambda input, ctx: {"done": ctx.transaction("write", work, ctx)})
    failed = served.deliver()
    assert (failed.kind, sent(failed)["error_code"]) == (Kind.FAIL, "UNHANDLED_EXCEPTION")
    assert (Charge.objects.count(), Effect.objects.count()) == (0, 0)
    done = served.deliver(attempt=2)
    assert sent(done)["output"] == {"done": {"n": 2}}
    assert (Charge.objects.count(), Effect.objects.get().status) == (1, "finished")


@pytest.mark.parametrize(
    "statements", [("COMMIT",), ("COMMIT", "BEGIN"), ("CREATE TABLE orbit_test_ddl (id integer)",)]
)
def test_work_that_commits_by_itself_is_no_success(statements):
    if statements[0].startswith("CREATE") and connection.vendor != "mysql":
        pytest.skip("only MariaDB commits before it creates a table")

    def work(ctx):
        charge({"amount": 1}, ctx)
        say(*statements)

    try:
        message = desk(lambda input, ctx: ctx.transaction("write", work, ctx) or {}).deliver()
    finally:
        say("DROP TABLE IF EXISTS orbit_test_ddl")
    assert "was ended or broken while its function ran" in sent(message)["error_message"]
    assert Effect.objects.count() == 0


def test_a_hook_that_fails_after_the_commit_takes_nothing_back(caplog):
    def work():
        transaction.on_commit(lambda: 1 / 0)
        return 1

    message = desk(lambda input, ctx: {"done": ctx.transaction("write", work)}).deliver()
    assert (sent(message)["output"], Effect.objects.get().status) == ({"done": 1}, "finished")
    assert "a hook that a handler registered with on_commit failed" in caplog.text


def without_autocommit():
    transaction.set_autocommit(False)


@pytest.mark.parametrize("begin", [without_autocommit, lambda: say("BEGIN")], ids=["autocommit off", "begun by hand"])
@pytest.mark.parametrize("kind", ["effect", "transaction"])
def test_where_a_commit_would_be_none_nothing_is_called(kind, begin):
    if connection.vendor == "mysql" and begin is not without_autocommit:
        pytest.skip("its BEGIN commits what was begun before, so the effect is on record")
    calls = []

    def handler(input, ctx):
        begin()
        getattr(ctx, kind)("pay", lambda: calls.append(1))
        return {}

    message = desk(handler).deliver()
    failure = sent(message)
    assert (calls, Effect.objects.count(), message.kind) == ([], 0, Kind.FAIL)
    assert (failure["error_code"], failure["retryable"]) == ("UNHANDLED_EXCEPTION", False)
    assert "begun by hand or without autocommit" in failure["error_message"]


@pytest.mark.promise("W6")
@pytest.mark.parametrize("begin", [without_autocommit, lambda: say("BEGIN")], ids=["autocommit off", "begun by hand"])
def test_a_transaction_that_is_left_open_is_a_failure_and_hinders_nobody(begin):
    def handler(input, ctx):
        begin()
        return charge(input, ctx)

    message = desk(handler).deliver()
    assert (message.kind, Charge.objects.count()) == (Kind.FAIL, 0)
    assert "left a transaction open on default" in sent(message)["error_message"]
    for is_atomic in (True, False):
        key = f"next {is_atomic}"
        assert Desk(charge, is_atomic=is_atomic).deliver(idempotency_key=key, token=key).kind == Kind.COMPLETE
    assert Charge.objects.count() == 2


@pytest.mark.django_db(transaction=True, databases=["default", "other"])
def test_another_database_that_lost_its_connection_is_no_trouble():
    if connection.vendor == "sqlite":
        pytest.skip("a file is not lost on the way")

    def handler(input, ctx):
        with connections["other"].cursor() as cursor:
            cursor.execute("SELECT 1")
        connections["other"].connection.close()
        return charge(input, ctx)

    assert desk(handler).deliver().kind == Kind.COMPLETE
    assert Charge.objects.count() == 1


def test_a_transaction_of_its_own_that_has_ended_is_its_own_matter():
    def handler(input, ctx):
        say("BEGIN")
        charge(input, ctx)
        say("COMMIT")
        return {}

    assert desk(handler).deliver().kind == Kind.COMPLETE
    assert Charge.objects.count() == 1


@pytest.mark.parametrize("kind", ["effect", "transaction"])
def test_functions_may_have_any_argument(kind):
    def handler(input, ctx):
        return {"got": getattr(ctx, kind)("pay", lambda **given: given, name="n", function="f", call=1, self=2)}

    assert sent(desk(handler).deliver())["output"] == {"got": {"name": "n", "function": "f", "call": 1, "self": 2}}


@pytest.mark.parametrize("kind", ["effect", "transaction"])
def test_a_name_is_a_text(kind):
    failure = sent(desk(lambda input, ctx: getattr(ctx, kind)(5, dict)).deliver())
    assert "take a text as name, not 5" in failure["error_message"]
    assert failure["retryable"] is False


def test_a_handler_that_lets_an_uncertain_effect_pass_has_not_succeeded():
    def handler(input, ctx):
        with suppress(EffectUncertainError):
            ctx.effect("pay", lambda: 1 / 0)
        return {}

    message = desk(handler).deliver()
    assert (message.kind, sent(message)["error_code"]) == (Kind.FAIL, "EFFECT_UNCERTAIN")
    assert (IdempotencyRecord.objects.get().status, Effect.objects.get().status) == ("failed", "uncertain")


def test_an_effect_that_a_second_call_finishes_is_not_uncertain():
    answers = [TimeoutError(), {"ok": True}]

    def pay():
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def handler(input, ctx):
        with suppress(EffectUncertainError):
            ctx.effect("pay", pay, idempotent=True)
        return ctx.effect("pay", pay, idempotent=True)

    assert sent(desk(handler).deliver())["output"] == {"ok": True}

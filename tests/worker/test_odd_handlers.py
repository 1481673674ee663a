import pytest
from django.db import connections
from django.utils.functional import SimpleLazyObject

from orbit_django import TaskError
from tests.ledger import Desk, charge, sent
from tests.testapp.models import Charge

pytestmark = [pytest.mark.databases, pytest.mark.django_db(transaction=True)]


class Nasty:
    """An object that raises whatever is done with it."""

    def __str__(self):
        raise ZeroDivisionError

    __repr__ = __str__

    def items(self):
        raise ZeroDivisionError


class ForgetfulError(TaskError):
    def __init__(self):
        self.unrelated = True


@pytest.mark.promise("E7", "E8")
@pytest.mark.parametrize(
    "error",
    [
        ForgetfulError(),
        TaskError(Nasty()),
        TaskError("C", Nasty()),
        TaskError("C", details={"a": Nasty()}),
        ValueError(Nasty()),
    ],
    ids=["no super", "code", "message", "details", "exception"],
)
def test_an_error_that_cannot_be_shown_is_reported_all_the_same(error):
    def handler(input, ctx):
        charge(input, ctx)
        raise error

    assert Desk(handler).deliver().kind == "fail"
    assert Charge.objects.count() == 0


@pytest.mark.promise("E7", "E8")
def test_a_result_that_cannot_be_looked_at_is_reported_all_the_same():
    lazy = SimpleLazyObject(lambda: 1 / 0)
    assert sent(Desk(lambda input, ctx: {"user": lazy}).deliver())["error_code"] in (
        "INVALID_RESULT",
        "UNHANDLED_EXCEPTION",
    )
    assert sent(Desk(lambda input, ctx: Nasty()).deliver(idempotency_key="2"))["error_code"] == "INVALID_RESULT"


@pytest.mark.promise("E1", "E3")
def test_a_handler_that_drops_its_connection_fails_and_leaves_a_usable_one():
    def handler(input, ctx):
        charge(input, ctx)
        del connections["default"]
        return charge(input, ctx)

    body = sent(Desk(handler).deliver())
    assert body["error_code"] == "UNHANDLED_EXCEPTION"
    assert Desk(charge).deliver(idempotency_key="next").kind == "complete"

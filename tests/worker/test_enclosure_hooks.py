import contextvars
import logging
from typing import Any

import pytest
from django.db import connection, transaction

from orbit_django.models import IdempotencyRecord
from tests.testapp.models import Charge
from tests.worker.breaking import (
    Handler,
    charge,
    closes_its_connection,
    ends_with_an_error,
    execute,
    marks_for_rollback,
    rolls_back,
)

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.databases, pytest.mark.promise("E1")]

NAME: contextvars.ContextVar[str] = contextvars.ContextVar("NAME", default="nobody")


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

import logging
from functools import partial
from threading import Event

import pytest
from django.db import IntegrityError, OperationalError, connection, transaction
from django.test.utils import CaptureQueriesContext

from orbit_django import outbox
from orbit_django.clock import FixedClock
from orbit_django.models import OutboxMessage
from orbit_django.protocol import Receipt
from orbit_django.worker.filing import Filing
from tests.worker.relaying import Status, earn, stored

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.databases]

YES = Receipt(accepted=True, reason="")


@pytest.fixture
def lost() -> list[Exception]:
    return []


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock()


@pytest.fixture
def filing(lost: list[Exception], clock: FixedClock) -> Filing:
    return Filing(lost.append, clock)


def accepted(count: int, filing: Filing) -> None:
    """Have reports answered under load: another one was filed just now."""
    filing.answered(earn("before"), YES)
    OutboxMessage.objects.all().delete()
    for number in range(count):
        filing.answered(earn(f"token-{number}"), YES)


PLANS = {"sqlite": "EXPLAIN QUERY PLAN ", "postgresql": "EXPLAIN ", "mysql": "EXPLAIN "}
BY_KEY = {"sqlite": "USING INTEGER PRIMARY KEY", "postgresql": "_pkey", "mysql": "range"}  # and not "index": all rows


@pytest.mark.promise("D2")
def test_what_was_accepted_is_filed_in_one_statement(filing: Filing) -> None:
    accepted(3, filing)
    assert OutboxMessage.objects.filter(status=Status.DELIVERED).count() == 0
    with CaptureQueriesContext(
        connection,
    ) as captured:
        filing.flush()
    assert [query["sql"].split()[0] for query in captured if "SELECT 1" not in query["sql"]] == ["UPDATE"]
    for number in range(3):
        row = stored(token=f"token-{number}")
        assert (row.status, row.accepted, row.reason, row.attempts) == (Status.DELIVERED, True, "", 1)
        assert (row.due_at, row.sender) == (None, "")
        assert row.settled_at is not None


def test_who_comes_late_joins_those_who_wait_instead_of_filing_alone(filing: Filing, clock: FixedClock) -> None:
    accepted(2, filing)
    clock.advance(10)  # their own thread had no turn yet
    late = earn("late")
    with CaptureQueriesContext(connection) as captured:
        filing.answered(late, YES)
    assert list(captured) == []
    filing.flush()
    assert OutboxMessage.objects.filter(status=Status.DELIVERED).count() == 3


def test_rows_that_were_filed_before_are_not_read_again(filing: Filing) -> None:
    accepted(12, filing)
    filing.flush()
    filing.answered(earn("last"), YES)
    filing.answered(earn("very last"), YES)
    with CaptureQueriesContext(connection) as captured:
        filing.flush()
    (update,) = [query["sql"] for query in captured if query["sql"].startswith("UPDATE")]

    with transaction.atomic(), connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("SET LOCAL enable_seqscan = off")  # a table this small is read as a whole
        cursor.execute(PLANS[connection.vendor] + update)
        plan = str(cursor.fetchall())
    assert BY_KEY[connection.vendor] in plan


@pytest.mark.promise("D2")
def test_what_was_not_accepted_is_filed_at_once(filing: Filing) -> None:
    filing.answered(earn(), Receipt(accepted=False, reason="stale attempt"))
    assert (stored().status, stored().reason) == (Status.REFUSED, "stale attempt")


def test_an_answered_message_is_not_sent_again_before_it_is_filed(filing: Filing) -> None:
    accepted(1, filing)
    message = earn()
    filing.answered(message, YES)
    assert message.status == Status.DELIVERED
    assert {row.status for row in OutboxMessage.objects.all()} == {Status.PENDING}


@pytest.mark.promise("W7")
def test_what_the_database_did_not_take_is_kept(
    filing: Filing, lost: list[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    errors = [OperationalError("away")] * 2
    settle = outbox.settle_accepted
    monkeypatch.setattr(outbox, "settle_accepted", lambda *args: fail_with(errors.pop())() if errors else settle(*args))
    accepted(2, filing)
    filing.flush()
    filing.flush()
    assert [str(error) for error in lost] == ["away", "away"]
    filing.flush()
    assert OutboxMessage.objects.filter(status=Status.DELIVERED).count() == 2


def test_what_the_database_will_never_take_holds_up_nothing(
    filing: Filing, lost: list[Exception], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    assert filing.write(fail_with(IntegrityError("never")))
    accepted(1, filing)
    filing.flush()
    assert stored(token="token-0").status == Status.DELIVERED
    assert not lost
    assert "could not be filed" in caplog.text


def test_a_message_that_somebody_else_has_settled_stays_as_it_is(filing: Filing) -> None:
    accepted(1, filing)
    OutboxMessage.objects.update(status=Status.BLOCKED)
    filing.flush()
    assert stored(token="token-0").status == Status.BLOCKED


class Bell(Event):
    """An event that an answer sets while somebody waits for it."""

    def __init__(self, filing: Filing, token: str) -> None:
        super().__init__()
        self._answer = partial(filing.answered, earn(token), YES)

    def wait(self, timeout: float | None = None) -> bool:
        self._answer()
        return super().wait(timeout)


def turn_with_an_answer(filing: Filing, token: str) -> float:
    """Let a turn wait until an answer comes; return for how long it then wants to collect others."""
    filing._news = Bell(filing, token)
    return filing.step()


def test_after_a_rest_an_answer_is_filed_before_anything_else_happens(filing: Filing, clock: FixedClock) -> None:
    filing.answered(earn("first"), YES)
    assert stored(token="first").status == Status.DELIVERED
    filing.answered(earn("second"), YES)
    assert stored(token="second").status == Status.PENDING
    filing.flush()
    clock.advance(0.06)
    filing.answered(earn("third"), YES)
    assert stored(token="third").status == Status.DELIVERED


def test_under_load_answers_wait_for_others_to_come_along(filing: Filing, clock: FixedClock) -> None:
    accepted(1, filing)
    filing.flush()
    clock.advance(0.02)
    assert turn_with_an_answer(filing, "another") == pytest.approx(0.03)
    assert stored(token="another").status == Status.PENDING


def fail_with(error: Exception):
    def fail(*_: object) -> None:
        raise error

    return fail

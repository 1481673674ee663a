import pytest

from orbit_django import TaskCancelled
from orbit_django.context import CancelReason
from orbit_django.models import IdempotencyRecord
from orbit_django.worker.delivery import Deferred
from tests.ledger import Desk, charge, sent

pytestmark = [pytest.mark.databases, pytest.mark.django_db(transaction=True)]


def die_in_handler(desk, **fields):
    """Leave what a process leaves that died in the handler of an atomic task: its transaction is undone."""

    class Died(BaseException):
        pass

    def die(delivery):
        raise Died

    desk.executor.run, desk.executor.ledger.discount_run = die, lambda delivery: None
    with pytest.raises(Died):
        desk.deliver(**fields)
    del desk.executor.run, desk.executor.ledger.discount_run


@pytest.mark.promise("E11")
def test_an_attempt_that_ends_its_process_too_often_is_not_run_again():
    desk = Desk(charge, settings={"max_redeliveries": 1})
    for _ in range(2):
        die_in_handler(desk, redelivery=True)
    body = sent(desk.deliver(redelivery=True))
    assert (body["error_code"], body["retryable"], desk.runs) == ("DELIVERY_LIMIT", True, 0)
    assert (body["details"]["redeliveries"], len(body["details"]["runs"])) == (2, 2)
    assert desk.deliver(attempt=2).kind == "complete"


@pytest.mark.promise("E11")
def test_replays_waiting_duplicates_and_orderly_ends_are_not_counted():
    desk = Desk(charge)
    desk.deliver()
    for _ in range(7):
        assert desk.deliver(redelivery=True).kind == "complete"
    IdempotencyRecord.objects.update(status="running", owner="alive", lease_ms=2**50)
    for _ in range(7):
        assert desk.deliver(redelivery=True) is Deferred.PARKED
    IdempotencyRecord.objects.update(lease_ms=None, output=None)

    def leave(input, ctx):
        ctx.cancelled.cancel(CancelReason.SHUTDOWN)
        raise TaskCancelled

    for _ in range(7):
        assert Desk(leave).deliver(redelivery=True) is Deferred.DROPPED
    assert IdempotencyRecord.objects.get().redeliveries == 0
    assert desk.deliver(redelivery=True).kind == "complete"

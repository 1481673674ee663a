import json

import pytest
from django.db import transaction

from orbit_django.models import IdempotencyRecord, OutboxMessage
from orbit_django.worker.delivery import Deferred
from tests.ledger import Desk, charge, sent
from tests.testapp.models import Charge

pytestmark = [pytest.mark.databases, pytest.mark.django_db(transaction=True)]


@pytest.mark.promise("E9")
def test_a_task_that_is_not_atomic_claims_first_and_stores_at_the_end():
    seen = []

    def handler(input, ctx):
        seen.append(IdempotencyRecord.objects.get().status)
        return charge(input, ctx)

    assert Desk(handler, is_atomic=False).deliver().kind == "complete"
    assert seen == ["running"]
    assert IdempotencyRecord.objects.get().status == "succeeded"


@pytest.mark.promise("E9", "E3")
def test_a_claim_that_lives_parks_a_second_delivery():
    results = []

    def handler(input, ctx):
        results.append(Desk(charge, is_atomic=False).deliver())
        return charge(input, ctx)

    Desk(handler, is_atomic=False).deliver()
    assert results == [Deferred.PARKED]
    assert Charge.objects.count() == 1


@pytest.mark.promise("E9")
def test_a_stale_owner_records_nothing_over_the_new_one():
    def slow(input, ctx):
        IdempotencyRecord.objects.update(lease_ms=0)
        Desk(lambda input, ctx: {"by": "new"}, is_atomic=False).deliver(token="new")
        return {"by": "stale"}

    assert Desk(slow, is_atomic=False).deliver(token="stale") is Deferred.PARKED
    assert json.loads(IdempotencyRecord.objects.get().output) == {"by": "new"}
    assert OutboxMessage.objects.count() == 1


@pytest.mark.promise("W6")
def test_a_transaction_left_open_is_rolled_back_and_fails_the_attempt():
    def leaky(input, ctx):
        transaction.set_autocommit(False)
        return charge(input, ctx)

    body = sent(Desk(leaky, is_atomic=False).deliver())
    assert body["error_code"] == "UNHANDLED_EXCEPTION"
    assert "transaction open" in body["error_message"]
    assert (Charge.objects.count(), transaction.get_autocommit()) == (0, True)

"""Reports that the binding in use cannot carry: found before the commit, and left to another binding after it."""

import json
from dataclasses import replace

import pytest

from orbit_django import outbox
from orbit_django.exceptions import NotCarriedError, PayloadTooLargeError
from orbit_django.models import IdempotencyRecord, OutboxMessage
from tests.ledger import Desk, charge, sent
from tests.testapp.models import Charge
from tests.worker.relaying import OWN, World, due, earn, stored

pytestmark = [pytest.mark.databases, pytest.mark.django_db(transaction=True)]
NARROW, WIDE = replace(OWN, binding="recording"), replace(OWN, binding="wide")
UNFIT = NotCarriedError("$.amount", "is too much for this binding")


def refuse_large(kind, body):
    if json.loads(body)["output"]["amount"] > 9:
        raise UNFIT


@pytest.mark.promise("E8")
@pytest.mark.parametrize("atomic", [True, False])
def test_it_is_found_before_the_commit_and_rolls_back(atomic):
    desk = Desk(charge, check_report=refuse_large, is_atomic=atomic)
    failure = sent(desk.deliver({"amount": 10}))
    assert (failure["error_code"], failure["retryable"], failure["details"]["path"]) == (
        "INVALID_RESULT",
        False,
        "$.amount",
    )
    assert IdempotencyRecord.objects.get().status == "failed"
    assert Charge.objects.count() == (0 if atomic else 1)
    assert sent(desk.deliver({"amount": 9}, idempotency_key="other"))["output"] == {"amount": 9}


@pytest.mark.promise("E8")
def test_one_that_is_too_large_for_the_binding_says_how_large():
    def refuse(kind, body):
        raise PayloadTooLargeError(70, 50)

    failure = sent(Desk(charge, check_report=refuse).deliver())
    assert (failure["error_code"], failure["details"]) == ("RESULT_TOO_LARGE", {"size": 70, "limit": 50})
    assert Charge.objects.count() == 0


@pytest.mark.promise("E2")
def test_a_stored_success_that_cannot_be_carried_is_replayed_as_a_failure_and_stays_a_success():
    Desk(charge).deliver({"amount": 10}, token="t1")
    desk = Desk(charge, check_report=refuse_large)
    failure = sent(desk.deliver({"amount": 10}, token="t2", redelivery=True))
    assert (failure["token"], failure["error_code"], failure["retryable"]) == ("t2", "INVALID_RESULT", False)
    assert (desk.runs, Charge.objects.count()) == (0, 1)
    assert IdempotencyRecord.objects.get().status == "succeeded"
    assert sent(Desk(charge).deliver({"amount": 10}, token="t3"))["output"] == {"amount": 10}


@pytest.mark.promise("D1")
@pytest.mark.parametrize("error", [UNFIT, PayloadTooLargeError(70, 50)])
def test_a_message_that_cannot_be_carried_is_left_to_another_binding(error):
    narrow = World(NARROW)
    due("large")
    due("small", seconds=-4)
    narrow.transport.script("send", error)
    assert narrow.look() == 2
    message = stored(token="large")
    assert (message.status, message.declined_by, message.attempts) == ("pending", "recording", 0)
    assert message.last_error == str(error)
    assert stored(token="small").status == "delivered"

    assert narrow.look() == 0
    assert not narrow.relay.has_pending()
    assert not narrow.relay.has_sendable()
    assert outbox.declined_count("default") == {"recording": 1}

    assert World(WIDE).look() == 1
    assert stored(token="large").status == "delivered"
    assert outbox.declined_count("default") == {}


@pytest.mark.promise("D1")
def test_so_is_one_that_the_loop_sends_itself():
    narrow = World(NARROW)
    narrow.transport.script("send", UNFIT)
    narrow.relay.report(earn())
    assert (stored().status, stored().declined_by, stored().sender) == ("pending", "recording", "")
    assert [each.token for each in outbox.claim_due("default", WIDE, 9)] == [stored().token]
    assert OutboxMessage.objects.count() == 1

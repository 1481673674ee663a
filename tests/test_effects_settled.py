"""What a person says of an open effect, and what follows from it."""

from contextlib import suppress

import pytest

from orbit_django import TaskError, effects, outbox
from orbit_django.exceptions import EffectUncertainError
from orbit_django.models import Effect, IdempotencyRecord, OutboxMessage
from orbit_django.protocol import Receipt
from tests.ledger import sent
from tests.test_effects import Provider, desk, leave_open, paying

pytestmark = [pytest.mark.databases, pytest.mark.django_db(transaction=True), pytest.mark.promise("E10")]


@pytest.mark.parametrize(("result", "calls", "paid"), [('{"n": 7}', 0, {"n": 7}), (None, 1, {"n": 1})])
def test_what_a_person_says_is_followed_by_the_same_attempt(result, calls, paid):
    leave_open()
    provider = Provider()
    served = paying(provider)
    served.deliver()
    effects.settle(Effect.objects.get(), result=result, settled_by="ann")
    assert sent(served.deliver(redelivery=True))["output"] == {"paid": paid}
    assert (provider.calls, Effect.objects.get().settled_by) == (calls, "ann" if result else "")


def settled(result="1"):
    return effects.settle(Effect.objects.get(), result=result, settled_by="ann")


def answered(accepted=True, reason=""):
    outbox.settle(OutboxMessage.objects.get(), Receipt(accepted=accepted, reason=reason))


def test_who_settles_is_told_what_the_runtime_knows():
    leave_open()
    assert "No failure of attempt 1 was reported" in settled()


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (None, "The runtime has not answered the failure of attempt 1 yet"),
        ({}, "The runtime was told that attempt 1 failed, and asks again only while"),
        ({"accepted": False, "reason": "stale attempt"}, "told that attempt 1 failed (stale attempt), and asks"),
    ],
)
def test_who_settles_is_told_whether_the_failure_arrived(answer, told):
    paying(Provider(TimeoutError())).deliver()
    if answer is not None:
        answered(**answer)
    assert told in settled()


@pytest.mark.parametrize(
    ("is_final", "told"), [(True, "with GONE, for good"), (False, "a stored success, which stays")]
)
def test_who_settles_is_told_when_nothing_follows(is_final, told):
    def handler(input, ctx):
        with suppress(EffectUncertainError):
            ctx.effect("pay", Provider(TimeoutError()))
        raise TaskError("GONE", retryable=False)

    desk(handler).deliver()
    if not is_final:
        IdempotencyRecord.objects.update(status="succeeded", output="{}", error=None)
    text = settled()
    assert told in text
    assert is_final is ("do not start the workflow again" in text)


def test_an_execution_started_again_under_the_same_key_is_charged_once():
    key = "order-1"
    provider = Provider(TimeoutError())
    served = paying(provider)
    for attempt in (1, 2, 3):
        served.deliver(idempotency_key=key, attempt=attempt)
    told = settled('{"n": 7}')
    assert "every step of the workflow has its key from the input, as this one may have 'order-1', start it" in told
    again = {"execution_id": "e2", "idempotency_key": key, "attempt": 1}
    assert sent(served.deliver(**again))["output"] == {"paid": {"n": 7}}
    assert provider.calls == 1


def test_an_execution_started_again_under_a_key_of_its_own_is_charged_twice():
    """What the pages warn of."""
    provider = Provider(TimeoutError())
    served = paying(provider)
    served.deliver()
    settled()
    served.deliver(execution_id="e2", idempotency_key="e2/step")
    assert provider.calls == 2


def test_a_slip_of_who_settled_is_corrected_after_a_run_has_failed_by_it():
    provider = Provider(TimeoutError())

    def handler(input, ctx):
        return {"paid": ctx.effect("pay", provider)["n"]}

    served = desk(handler)
    served.deliver()
    settled('"ch_1"')
    assert sent(served.deliver(redelivery=True))["error_code"] == "UNHANDLED_EXCEPTION"
    settled('{"n": 7}')
    assert sent(served.deliver(attempt=2))["output"] == {"paid": 7}
    assert provider.calls == 1


def test_what_was_said_is_not_corrected_while_a_run_goes_by_it():
    leave_open()
    settled()
    IdempotencyRecord.objects.update(status="running", owner="alive", lease_ms=2**50)
    with pytest.raises(ValueError, match=r"a run that goes by what was said of 'pay' holds its claim"):
        settled("2")
    assert Effect.objects.get().result == "1"
    IdempotencyRecord.objects.update(lease_ms=5)  # its time is over; what is left of the run stores nothing
    settled("2")
    assert IdempotencyRecord.objects.get().owner == ""


def test_only_an_open_effect_can_be_settled():
    paying(Provider()).deliver()
    with pytest.raises(ValueError, match="not open"):
        effects.settle(Effect.objects.get(), result=None, settled_by="ann")

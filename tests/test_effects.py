import json

import pytest
from django.db import transaction

from orbit_django import TaskError
from orbit_django.models import Effect, IdempotencyRecord
from orbit_django.worker.delivery import Deferred
from tests.ledger import Desk, sent
from tests.testapp.models import Charge

pytestmark = [pytest.mark.databases, pytest.mark.django_db(transaction=True), pytest.mark.promise("E10")]


class Provider:
    """The outside world: counts its calls, and fails or dies as told."""

    def __init__(self, *answers):
        self.calls = 0
        self._answers = list(answers)

    def __call__(self, *args):
        self.calls += 1
        answer = self._answers.pop(0) if self._answers else {"n": self.calls}
        if isinstance(answer, BaseException):
            raise answer
        return answer


def desk(handler):
    return Desk(handler, is_atomic=False)


def paying(provider, **options):
    return desk(lambda input, ctx: {"paid": ctx.effect("pay", provider, **options)})


def leave_open(provider_died=True):
    """Leave what a process leaves that died while it called: a begun effect and a claim that has ended."""
    desk(lambda input, ctx: ctx.effect("pay", lambda: {"n": 0}) and {}).deliver(token="dead")
    Effect.objects.update(status="started", result=None, owner="dead")
    IdempotencyRecord.objects.update(status="running", lease_ms=0, owner="dead", output=None)


def test_an_effect_is_on_record_before_and_after_the_call():
    seen = []
    result = paying(lambda: seen.append(Effect.objects.get().status) or {"n": 1}).deliver()
    assert (seen, Effect.objects.get().status) == (["started"], "finished")
    assert sent(result)["output"] == {"paid": {"n": 1}}


def test_a_finished_effect_is_not_called_again():
    provider = Provider()

    def handler(input, ctx):
        paid = ctx.effect("pay", provider)
        if ctx.attempt == 1:
            raise TaskError("LATER")
        return {"paid": paid}

    served = desk(handler)
    served.deliver()
    assert sent(served.deliver(attempt=2))["output"] == {"paid": {"n": 1}}
    assert provider.calls == 1


def test_an_open_effect_is_not_called_and_becomes_an_incident():
    leave_open()
    provider = Provider()
    served = paying(provider)
    body = sent(served.deliver())
    assert (body["error_code"], body["retryable"], provider.calls) == ("EFFECT_UNCERTAIN", True, 0)
    assert Effect.objects.get().status == "uncertain"
    assert sent(served.deliver(attempt=2))["error_code"] == "EFFECT_UNCERTAIN"
    assert provider.calls == 0


def test_an_idempotent_effect_is_called_again():
    leave_open()
    provider = Provider()
    assert sent(paying(provider, idempotent=True).deliver())["output"] == {"paid": {"n": 1}}
    assert (provider.calls, Effect.objects.get().status) == (1, "finished")


def test_an_effect_that_can_be_found_is_not_called():
    leave_open()
    provider = Provider()
    assert sent(paying(provider, find=lambda: {"found": 1}).deliver())["output"] == {"paid": {"found": 1}}
    assert (provider.calls, Effect.objects.get().status) == (0, "finished")


def test_an_effect_that_was_not_found_is_called():
    leave_open()
    provider = Provider()
    assert sent(paying(provider, find=lambda: None).deliver())["output"] == {"paid": {"n": 1}}


@pytest.mark.parametrize(
    ("options", "text", "why"),
    [
        ({"find": lambda: {"found": 1}}, "an effect that was left open had happened", "find"),
        ({"find": lambda: None}, "an effect that was left open is called again", "find"),
        ({"idempotent": True}, "an effect that was left open is called again", "idempotent"),
    ],
)
def test_what_becomes_of_an_open_effect_is_logged(caplog, options, text, why):
    leave_open()
    caplog.set_level("INFO", "orbit_django")
    caplog.clear()
    paying(Provider(), **options).deliver()
    (said,) = [record for record in caplog.records if record.name.startswith("orbit_django.effects")]
    assert (said.message, said.effect, said.why) == (text, "pay", why)
    assert (said.execution, said.step, said.task, said.attempt) == ("e1", "step", "test.task", 1)


def test_a_look_that_fails_leaves_it_open():
    leave_open()
    provider, lost = Provider(), ConnectionError("no route")
    body = sent(paying(provider, find=Provider(lost)).deliver())
    assert (body["error_code"], provider.calls) == ("EFFECT_UNCERTAIN", 0)
    assert "no route" in body["details"]["error"]
    assert Effect.objects.get().status == "started"


@pytest.mark.parametrize("trouble", [TimeoutError("gone quiet"), {"result": object()}])
def test_a_call_that_went_wrong_is_uncertain(trouble):
    provider = Provider(trouble)
    served = paying(provider)
    body = sent(served.deliver())
    assert (body["error_code"], Effect.objects.get().status) == ("EFFECT_UNCERTAIN", "uncertain")
    served.deliver(attempt=2)
    assert provider.calls == 1


def test_a_task_error_says_that_it_did_not_happen():
    provider = Provider(TaskError("DECLINED", "no money"))
    served = paying(provider)
    assert sent(served.deliver())["error_code"] == "DECLINED"
    assert Effect.objects.get().status == "not_happened"
    assert sent(served.deliver(attempt=2))["output"] == {"paid": {"n": 2}}


def test_an_idempotent_call_that_went_wrong_is_no_incident():
    provider = Provider(TimeoutError("gone quiet"))
    served = paying(provider, idempotent=True)
    assert sent(served.deliver())["error_code"] == "EFFECT_UNCERTAIN"
    assert not Effect.objects.uncertain().exists()
    assert sent(served.deliver(attempt=2))["output"] == {"paid": {"n": 2}}


def test_a_transaction_keeps_its_rows_and_its_result_together():
    runs = []

    def handler(input, ctx):
        number = ctx.transaction("row", lambda amount: runs.append(1) or Charge.objects.create(amount=amount).pk, 5)
        if ctx.attempt == 1:
            raise TaskError("LATER")
        return {"number": number}

    served = desk(handler)
    served.deliver()
    assert sent(served.deliver(attempt=2))["output"] == {"number": Charge.objects.get().pk}
    assert len(runs) == 1


def test_a_transaction_that_fails_keeps_nothing():
    def broken():
        Charge.objects.create(amount=1)
        raise ValueError("broken")

    desk(lambda input, ctx: ctx.transaction("row", broken)).deliver()
    assert (Charge.objects.count(), Effect.objects.count()) == (0, 0)


@pytest.mark.promise("E9")
def test_a_stale_owner_commits_no_transaction():
    def handler(input, ctx):
        IdempotencyRecord.objects.update(lease_ms=0)
        desk(lambda input, ctx: {"by": "new"}).deliver(token="new")
        ctx.transaction("row", lambda: Charge.objects.create(amount=1).pk)
        return {"by": "stale"}

    assert desk(handler).deliver(token="stale") is Deferred.PARKED
    assert Charge.objects.count() == 0
    assert json.loads(IdempotencyRecord.objects.get().output) == {"by": "new"}


def test_effects_need_a_task_that_is_not_atomic():
    body = sent(Desk(lambda input, ctx: ctx.effect("pay", Provider())).deliver())
    assert "atomic=False" in body["error_message"]


def test_effects_do_not_work_inside_an_atomic_block():
    def handler(input, ctx):
        with transaction.atomic():
            return ctx.effect("pay", Provider())

    assert "atomic block" in sent(desk(handler).deliver())["error_message"]
    assert not Effect.objects.exists()

import threading

import pytest
from django.db import connection, connections

from orbit_django import TaskCancelled, TaskError, outbox
from orbit_django.context import CancelReason
from orbit_django.models import IdempotencyRecord, OutboxMessage
from orbit_django.worker.delivery import Deferred
from tests.ledger import Desk, charge, sent
from tests.testapp.models import Charge

pytestmark = [pytest.mark.databases, pytest.mark.django_db(transaction=True)]


def declined(input, ctx):
    charge(input, ctx)
    raise TaskError("CARD_DECLINED", "no money", retryable=input.get("retryable", True), details={"left": [1, None]})


@pytest.mark.promise("E1")
def test_row_record_and_message_are_committed_together():
    message = Desk(charge).deliver({"amount": 5}, token="t1")
    assert Charge.objects.get().amount == 5
    record = IdempotencyRecord.objects.get()
    assert (record.status, record.output, record.attempt) == ("succeeded", '{"amount":5}', 1)
    assert (message.record_id, message.status, message.kind) == (record.pk, "pending", "complete")
    assert outbox.text_of(message) == '{"token":"t1","output":{"amount":5}}'


@pytest.mark.promise("E1")
def test_nothing_is_visible_while_the_handler_runs():
    seen = []

    def look():
        seen.append((Charge.objects.count(), IdempotencyRecord.objects.count(), OutboxMessage.objects.count()))
        connections.close_all()

    def handler(input, ctx):
        result = charge(input, ctx)
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
        return result

    Desk(handler).deliver()
    assert seen == [(0, 0, 0)]


@pytest.mark.promise("E2", "D4")
def test_a_stored_success_is_replayed_under_the_new_token():
    desk = Desk(charge)
    first = desk.deliver({"amount": 5}, token="t1")
    again = desk.deliver({"amount": 5}, token="t2", redelivery=True)
    later = desk.deliver({"amount": 5}, token="t3", attempt=4)
    assert (desk.runs, Charge.objects.count()) == (1, 1)
    texts = {outbox.text_of(message).replace(message.token, "T") for message in (first, again, later)}
    assert texts == {'{"token":"T","output":{"amount":5}}'}


@pytest.mark.promise("E2")
def test_another_worker_replays_too():
    Desk(charge).deliver({"amount": 5})
    other = Desk(charge, worker_id="another")
    assert sent(other.deliver({"amount": 5}))["output"] == {"amount": 5}
    assert other.runs == 0


@pytest.mark.promise("E6")
def test_the_same_delivery_once_more_finds_its_own_message():
    desk = Desk(charge)
    first = desk.deliver(token="t1")
    assert desk.deliver(token="t1").pk == first.pk
    assert OutboxMessage.objects.count() == 1


@pytest.mark.promise("E4")
def test_a_failure_rolls_back_and_is_recorded():
    message = Desk(declined).deliver(token="t1")
    assert Charge.objects.count() == 0
    assert IdempotencyRecord.objects.get().status == "failed"
    assert sent(message) == {
        "token": "t1",
        "error_code": "CARD_DECLINED",
        "error_message": "no money",
        "retryable": True,
        "details": {"left": [1, None]},
    }


@pytest.mark.promise("E4")
def test_the_same_attempt_replays_its_failure_and_a_higher_one_runs():
    desk = Desk(declined)
    first = desk.deliver(token="t1")
    again = desk.deliver(token="t2", redelivery=True)
    assert outbox.text_of(first).replace("t1", "t2") == outbox.text_of(again)
    assert desk.runs == 1
    desk.deliver(attempt=2)
    assert desk.runs == 2


@pytest.mark.promise("E4")
@pytest.mark.parametrize("is_atomic", [True, False])
def test_a_failure_of_another_execution_is_not_replayed_under_a_key_that_both_share(is_atomic):
    desk = Desk(
        lambda input, ctx: {"ran": 1} if ctx.execution_id == "e2" else declined(input, ctx), is_atomic=is_atomic
    )
    desk.deliver(attempt=3)
    again = {"execution_id": "e2", "attempt": 1}
    assert sent(desk.deliver(**again))["output"] == {"ran": 1}
    record = IdempotencyRecord.objects.get()
    assert (record.execution_id, record.attempt, record.status) == ("e2", 1, "succeeded")


@pytest.mark.promise("E2", "E4")
def test_what_another_execution_left_under_a_key_that_both_share_counts_for_its_own_redelivery():
    desk = Desk(declined)
    desk.deliver(attempt=3)
    first = sent(desk.deliver(execution_id="e2", token="t1"))
    assert sent(desk.deliver(execution_id="e2", redelivery=True, token="t2")) == {**first, "token": "t2"}
    assert desk.runs == 2
    desk.deliver(execution_id="e3", redelivery=True, attempt=1)
    assert desk.runs == 3


@pytest.mark.promise("E4")
def test_a_retry_may_succeed_and_then_the_success_stays():
    desk = Desk(lambda input, ctx: charge(input, ctx) if ctx.attempt > 1 else declined(input, ctx))
    desk.deliver()
    assert desk.deliver(attempt=2).kind == "complete"
    assert desk.deliver(attempt=1).kind == "complete"
    assert (desk.runs, Charge.objects.count()) == (2, 1)


@pytest.mark.promise("E4")
def test_a_late_failure_does_not_overwrite_a_success(monkeypatch):
    desk = Desk(declined)
    fail = desk.executor.ledger.fail

    def fail_after_another_has_succeeded(delivery, failure):
        Desk(charge).deliver(token="winner")
        return fail(delivery, failure)

    monkeypatch.setattr(desk.executor.ledger, "fail", fail_after_another_has_succeeded)
    assert desk.deliver(token="loser").kind == "complete"
    assert IdempotencyRecord.objects.get().status == "succeeded"


@pytest.mark.promise("E5")
@pytest.mark.parametrize("changed", [{"input": {"amount": 6}}, {"contract_version": "2.0.0"}])
def test_another_input_or_version_is_a_conflict(changed):
    Desk(charge).deliver({"amount": 5})
    desk = Desk(charge, version=changed.get("contract_version", "1.0.0"))
    body = sent(desk.deliver(changed.get("input", {"amount": 5}), attempt=2))
    assert (body["error_code"], body["retryable"], desk.runs) == ("IDEMPOTENCY_CONFLICT", False, 0)
    assert set(body["details"]) == {"stored", "received"}
    assert IdempotencyRecord.objects.get().status == "succeeded"


@pytest.mark.promise("E5")
def test_equal_values_are_no_conflict():
    desk = Desk(charge)
    desk.deliver({"amount": 5, "x": {"p": 1, "q": "é"}})
    assert desk.deliver({"x": {"q": "é", "p": 1.0}, "amount": 5.0}).kind == "complete"
    assert desk.runs == 1


KEYS = ["k", "K", "k ", " k", "ß", "ss", "é", "e\u0301", "k\x00", "\ud800", "", "x" * 5_000, "x" * 5_001, "😀", "😁"]


@pytest.mark.promise("E5")
def test_keys_compare_byte_for_byte_at_any_length():
    desk = Desk(lambda input, ctx: {"key": ascii(ctx.idempotency_key)})
    for key in KEYS:
        desk.deliver(idempotency_key=key)
    assert desk.runs == len(KEYS)
    for key in KEYS:
        assert sent(desk.deliver(idempotency_key=key))["output"] == {"key": ascii(key)}
    assert desk.runs == IdempotencyRecord.objects.count() == len(KEYS)


@pytest.mark.promise("E5")
def test_the_kind_of_step_belongs_to_the_key():
    desk = Desk(charge)
    for step in ("a", "b", "compensate:a", "on_failure:a"):
        desk.deliver(step_id=step)
    assert desk.runs == 3


@pytest.mark.promise("E3")
def test_a_busy_key_is_parked_at_once():
    results = []

    def second():
        results.append(Desk(charge).deliver(token="second"))
        connections.close_all()

    def handler(input, ctx):
        if connection.vendor != "sqlite":  # there the second delivery waits for the first, outside the database
            thread = threading.Thread(target=second)
            thread.start()
            thread.join(10)
        return charge(input, ctx)

    Desk(handler).deliver()
    if connection.vendor == "sqlite":
        second()
        assert results[0].kind == "complete"
    else:
        assert results == [Deferred.PARKED]
    assert Charge.objects.count() == 1


@pytest.mark.promise("E3")
def test_many_deliveries_of_few_keys_leave_one_effect_a_key():
    def work(number):
        desk = Desk(charge)
        for key in [f"k{(number + offset) % 5}" for offset in range(5)]:
            while desk.deliver(idempotency_key=key) is Deferred.PARKED:
                threading.Event().wait(0.005)
        connections.close_all()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(Charge.objects.values_list("key", flat=True)) == [f"k{number}" for number in range(5)]
    assert OutboxMessage.objects.count() == 30
    assert not OutboxMessage.objects.filter(kind="fail").exists()


@pytest.mark.promise("E8")
@pytest.mark.parametrize(
    ("result", "path"),
    [([1], "$"), ("text", "$"), ({"a": {"b": [1.0, float("nan")]}}, "$.a.b[1]"), ({"a": {1}}, "$.a"), ({1: 2}, "$")],
)
def test_a_bad_result_rolls_back_and_names_the_path(result, path):
    body = sent(Desk(lambda input, ctx: charge(input, ctx) and result).deliver())
    assert (body["error_code"], body["retryable"], body["details"]["path"]) == ("INVALID_RESULT", False, path)
    assert Charge.objects.count() == 0


@pytest.mark.promise("E8")
def test_a_body_over_the_limit_rolls_back_and_names_both_sizes():
    desk = Desk(lambda input, ctx: charge(input, ctx) | {"pad": "x" * 3_000}, settings={"max_body_bytes": 2_048})
    body = sent(desk.deliver())
    assert (body["error_code"], body["retryable"], body["details"]["limit"]) == ("RESULT_TOO_LARGE", False, 2_048)
    assert body["details"]["size"] > 3_000
    assert Charge.objects.count() == 0


@pytest.mark.promise("E7")
def test_a_task_that_nobody_serves_is_reported():
    message = Desk(charge).deliver(task_name="nobody.serves", token="t1")
    body = sent(message)
    assert (body["error_code"], body["retryable"], message.record_id) == ("UNKNOWN_TASK", True, None)


@pytest.mark.promise("W4")
def test_a_handler_that_the_runtime_cancelled_is_reported_so():
    def handler(input, ctx):
        ctx.cancelled.cancel(CancelReason.RUNTIME)
        charge(input, ctx)
        ctx.raise_if_cancelled()

    assert sent(Desk(handler).deliver())["error_code"] == "CANCELLED"
    assert Charge.objects.count() == 0


@pytest.mark.promise("W5")
def test_a_handler_that_a_hasty_end_stopped_is_not_reported():
    def handler(input, ctx):
        charge(input, ctx)
        ctx.cancelled.cancel(CancelReason.SHUTDOWN)
        raise TaskCancelled

    assert Desk(handler).deliver() is Deferred.DROPPED
    assert (Charge.objects.count(), IdempotencyRecord.objects.count()) == (0, 0)

import threading

import pytest
from django.db import IntegrityError, OperationalError, connections, transaction
from django.utils import timezone

from orbit_django import TaskError, idempotency, outbox, retention
from orbit_django.exceptions import RecordInUseError
from orbit_django.models import Effect, IdempotencyRecord, OutboxMessage, WorkflowStart
from orbit_django.protocol import Receipt
from orbit_django.retention import Pruned
from orbit_django.verdicts import Key
from tests.aged import age, desk, key, paying, prune, settled
from tests.ledger import Desk, assignment
from tests.worker.starting import ask
from tests.worker.words import TickingClock

pytestmark = [pytest.mark.databases, pytest.mark.django_db(transaction=True), pytest.mark.promise("D7")]


def test_what_is_settled_and_old_is_removed_with_all_that_belongs_to_it():
    settled(desk())
    settled(paying(), 1)
    age()
    assert prune() == Pruned(records=2, messages=2, effects=1)
    assert not IdempotencyRecord.objects.exists()
    assert not OutboxMessage.objects.exists()
    assert not Effect.objects.exists()


def test_what_is_not_old_enough_stays_and_is_replayed():
    served = desk()
    settled(served)
    age(29)
    assert prune() == Pruned()
    assert served.deliver(**key(0), redelivery=True).kind == "complete"
    assert served.runs == 1


def test_an_old_record_that_was_asked_for_lately_stays():
    served = desk()
    settled(served)
    age()
    settled(served, redelivery=True)
    assert prune() == Pruned()
    assert OutboxMessage.objects.count() == 2


@pytest.mark.parametrize("status", ["pending", "blocked"])
def test_nothing_undelivered_is_removed_whatever_its_age(status):
    served = desk()
    settled(served)
    message = served.deliver(**key(0), redelivery=True)
    lone = outbox.append(assignment(), outbox.Origin("w", "http://a"), using="default", record=None, error="{}")
    OutboxMessage.objects.filter(pk__in=[message.pk, lone.pk]).update(status=status, due_at=None)
    age(5_000)
    assert prune(0) == Pruned()
    assert (IdempotencyRecord.objects.count(), OutboxMessage.objects.count()) == (1, 3)


def test_messages_without_a_record_are_removed():
    message = outbox.append(assignment(), outbox.Origin("w", "http://a"), using="default", record=None, error="{}")
    outbox.settle(message, Receipt(accepted=False, reason="unknown token"))
    assert prune() == Pruned()
    age()
    assert prune(is_dry_run=True) == Pruned(messages=1)
    assert prune() == Pruned(messages=1)


@pytest.mark.parametrize(("status", "count"), [("started", 0), ("uncertain", 0), ("not_happened", 1)])
def test_an_open_effect_keeps_its_record(status, count):
    settled(paying())
    Effect.objects.update(status=status)
    age()
    assert prune().records == count


@pytest.mark.parametrize(
    ("fields", "count"),
    [
        ({"lease_ms": 5}, 1),
        ({"lease_ms": None}, 1),  # a counted run that died with its process
        ({"lease_ms": 2**50}, 0),
        ({"lease_ms": 5, "created_at": timezone.now()}, 0),
    ],
)
def test_what_a_dead_run_left_is_removed_when_its_claim_ended_long_ago(fields, count):
    settled(desk())
    age()
    IdempotencyRecord.objects.update(**({"status": "running", "output": None, "finished_at": None} | fields))
    assert prune().records == count


def test_an_unfinished_record_with_effects_stays():
    settled(paying())
    age()
    IdempotencyRecord.objects.update(status="running", output=None, finished_at=None, lease_ms=5)
    assert prune() == Pruned()


def test_a_failed_attempt_that_was_begun_again_is_among_the_unfinished():
    served = Desk(lambda input, ctx: {}["nothing"])
    settled(served)
    again = Key.of(assignment(**key(0), attempt=2), "default")
    with transaction.atomic():
        idempotency.count_run(again, owner="o", worker_id="w", limit=5)
    age()
    assert IdempotencyRecord.objects.get().finished_at is None
    assert prune().records == 1


def test_starts_are_removed_when_they_were_answered():
    for number, status in enumerate(("started", "refused", "pending", "blocked", "started")):
        ask(f"e-{number}")
        answered = timezone.now() if status in ("started", "refused") else None
        WorkflowStart.objects.filter(execution_id=f"e-{number}").update(status=status, settled_at=answered)
    age()
    WorkflowStart.objects.filter(execution_id="e-4").update(settled_at=timezone.now())
    assert prune(is_dry_run=True) == prune() == Pruned(starts=2)
    assert set(WorkflowStart.objects.values_list("execution_id", flat=True)) == {"e-2", "e-3", "e-4"}


def test_a_dry_run_counts_and_removes_nothing():
    for number in range(3):
        settled(paying(), number)
    age()
    assert prune(is_dry_run=True) == Pruned(records=3, messages=3, effects=3)
    assert (IdempotencyRecord.objects.count(), OutboxMessage.objects.count(), Effect.objects.count()) == (3, 3, 3)


def test_a_run_that_was_interrupted_is_taken_up_by_the_next(monkeypatch):
    monkeypatch.setattr(retention, "BATCH", 4)
    served = desk()
    for number in range(12):
        settled(served, number)
    age()
    IdempotencyRecord.objects.update(finished_at=IdempotencyRecord.objects.first().finished_at)  # all at once
    first = IdempotencyRecord.objects.order_by("pk").first()
    first.messages.update(status="blocked", settled_at=None)
    begun = retention.prune("default", 30)
    assert next(begun) == Pruned(3, 3)
    begun.close()
    assert (IdempotencyRecord.objects.count(), OutboxMessage.objects.count()) == (9, 9)
    assert prune() == Pruned(8, 8)
    assert IdempotencyRecord.objects.get() == first


def test_an_error_in_a_batch_leaves_it_whole(monkeypatch):
    settled(desk())
    age()
    monkeypatch.setattr(idempotency, "discard", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        prune()
    assert (IdempotencyRecord.objects.count(), OutboxMessage.objects.count()) == (1, 1)


def test_the_database_itself_refuses_to_remove_a_record_with_a_message():
    desk().deliver(**key(0))
    with pytest.raises(IntegrityError), transaction.atomic():
        idempotency.discard("default", [IdempotencyRecord.objects.get().pk])
    assert OutboxMessage.objects.get().record is not None


def test_a_batch_that_a_delivery_came_into_is_looked_at_again(monkeypatch):
    served = desk()
    settled(served)
    age()
    monkeypatch.setattr(outbox, "discard", lambda using, records: 0)  # so that the messages are still there
    assert prune() == Pruned()
    monkeypatch.undo()
    assert prune() == Pruned(1, 1)


def test_a_database_that_fails_ends_the_run(monkeypatch):
    settled(desk())
    age()

    def fail(*_):
        raise OperationalError(2013, "gone")

    monkeypatch.setattr(outbox, "discard", fail)
    with pytest.raises(OperationalError):
        prune()


def test_workers_get_half_of_the_time(monkeypatch):
    monkeypatch.setattr(retention, "BATCH", 2)
    served, rests = desk(), []
    for number in range(3):
        settled(served, number)
    age()
    assert prune(clock=TickingClock(0.25), rest=rests.append) == Pruned(3, 3)
    assert rests == [0.25, 0.25]
    settled(served)
    age()
    assert prune(clock=TickingClock(9), rest=rests.append, is_dry_run=True) == Pruned(1, 1)
    assert prune(clock=TickingClock(9), rest=rests.append) == Pruned(1, 1)
    assert rests == [0.25, 0.25, 1]


def test_looking_is_bounded_and_follows_the_index(django_assert_max_num_queries, monkeypatch):
    monkeypatch.setattr(retention, "BATCH", 5)
    served = desk()
    for number in range(10):
        settled(served, number)
    age(20)
    with django_assert_max_num_queries(8):  # nothing is old: one look along each index
        assert prune() == Pruned()


def test_a_record_that_nobody_needs_is_forgotten_with_all_that_belongs_to_it():
    served = paying()
    settled(served)
    retention.forget("default", IdempotencyRecord.objects.get().pk)
    assert not IdempotencyRecord.objects.exists()
    assert not OutboxMessage.objects.exists()
    assert not Effect.objects.exists()


def test_a_record_that_somebody_needs_is_not_forgotten():
    desk().deliver(**key(0))
    with pytest.raises(RecordInUseError):
        retention.forget("default", IdempotencyRecord.objects.get().pk)
    assert (IdempotencyRecord.objects.count(), OutboxMessage.objects.count()) == (1, 1)


def test_a_record_whose_handler_runs_is_not_forgotten():
    told = []

    def forget():
        try:
            told.append(retention.forget("default", IdempotencyRecord.objects.get().pk))
        except RecordInUseError:
            told.append("in use")
        finally:
            connections.close_all()

    def handler(input, ctx):
        if ctx.attempt == 1:
            raise TaskError("NOT_YET")
        asking.start()  # whether it looks now or waits for its turn: by then the new outcome has no answer
        return {"n": 1}

    asking = threading.Thread(target=forget)
    served = Desk(handler)
    settled(served)
    served.deliver(**key(0), attempt=2)
    asking.join(30)
    assert told == ["in use"]
    assert IdempotencyRecord.objects.get().status == "succeeded"

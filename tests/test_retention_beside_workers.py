import threading

import pytest
from django.db import connection, transaction
from django.utils import timezone

from orbit_django import effects, idempotency, outbox, retention
from orbit_django.dialects import dialect_of
from orbit_django.models import IdempotencyRecord, OutboxMessage
from orbit_django.retention import Pruned
from orbit_django.verdicts import Key, Stored
from orbit_django.worker.delivery import Deferred
from tests.aged import age, beside, desk, key, prune, settled
from tests.ledger import assignment

pytestmark = [pytest.mark.databases, pytest.mark.django_db(transaction=True), pytest.mark.promise("D7")]


def hold(served_key, is_held, may_go):
    """Answer a delivery from its record, slowly."""
    with dialect_of("default").writing(), transaction.atomic():
        stored = idempotency.begin(served_key, owner="o", worker_id="w")
        assert isinstance(stored, Stored)
        is_held.set()
        assert may_go.wait(20)
        outbox.append(served_key.assignment, outbox.Origin("w", "s"), using="default", record=stored.record)


@pytest.mark.parametrize("can_skip", [True, False])
def test_a_record_that_a_delivery_holds_is_left_alone(monkeypatch, can_skip):
    if not can_skip and connection.vendor == "mysql":  # as old servers are
        monkeypatch.setattr(type(connection.features), "has_select_for_update_skip_locked", False)
    served = desk()
    settled(served, 0)
    settled(served, 1)
    age()
    is_held, may_go = threading.Event(), threading.Event()
    again = Key.of(assignment(**key(0), token="again"), "default")
    counts = []
    with beside(lambda: hold(again, is_held, may_go)):
        assert is_held.wait(20)
        if connection.vendor == "sqlite":  # one writer: the other waits
            may_go.set()
        counts.append(prune())
        may_go.set()
    assert counts == [Pruned(1, 1)]
    assert prune() == Pruned()
    assert OutboxMessage.objects.filter(token="again", status="pending").exists()


def test_a_delivery_that_meets_a_batch_waits_and_runs():
    served = desk()
    settled(served)
    age()
    found = []
    with dialect_of("default").writing(), transaction.atomic():
        held = idempotency.hold_prunable("default", [IdempotencyRecord.objects.get().pk], timezone.now())
        if connection.vendor != "sqlite":
            with beside(lambda: found.append(served.deliver(**key(0), redelivery=True))):
                pass
            assert found == [Deferred.PARKED]
        outbox.discard("default", held)
        effects.discard("default", held)
        assert idempotency.discard("default", held) == 1
    assert served.deliver(**key(0), redelivery=True).kind == "complete"
    assert served.runs == 2


def test_no_report_is_lost_while_deliveries_and_pruning_meet(monkeypatch):
    monkeypatch.setattr(retention, "BATCH", 5)
    served = desk()
    reports, over = [], threading.Event()
    for number in range(20):
        settled(served, number)
    age()

    def redeliver(seed):
        for step in range(40):
            report = served.deliver(**key((seed * 7 + step * 3) % 20))
            if report is not Deferred.PARKED:
                reports.append(report)

    def remove():
        while not over.is_set():
            prune()

    with beside(remove):
        with beside(lambda: redeliver(1)), beside(lambda: redeliver(2)), beside(lambda: redeliver(3)):
            pass
        over.set()
    kept = OutboxMessage.objects.filter(pk__in=[report.pk for report in reports], record__isnull=False)
    assert kept.pending().count() == len(reports) > 0
    assert served.runs <= 40  # once before, and at most once more for a record that was removed


def test_two_runs_at_once_remove_each_row_once(monkeypatch):
    monkeypatch.setattr(retention, "BATCH", 3)
    served = desk()
    for number in range(20):
        settled(served, number)
    age()
    totals = []
    with beside(lambda: totals.append(prune())), beside(lambda: totals.append(prune())):
        pass
    assert sum(total.records for total in totals) + prune().records == 20
    assert not IdempotencyRecord.objects.exists()

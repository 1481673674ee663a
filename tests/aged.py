"""Deliveries that were answered long ago, and removing them, also while something else goes on."""

import threading
from contextlib import contextmanager
from datetime import timedelta

from django.db import connections

from orbit_django import outbox, retention
from orbit_django.models import IdempotencyRecord, OutboxMessage, WorkflowStart
from orbit_django.protocol import Receipt
from orbit_django.retention import Pruned
from tests.ledger import Desk


def desk():
    return Desk(lambda input, ctx: {"n": input["n"]})


def paying():
    return Desk(lambda input, ctx: {"paid": ctx.effect("pay", lambda: {"ok": True})}, is_atomic=False)


def key(number):
    return {"input": {"n": number}, "idempotency_key": f"e{number}/step", "execution_id": f"e{number}"}


def settled(served, number=0, **fields):
    outbox.settle(served.deliver(**key(number), **fields), Receipt(accepted=True, reason=""))


def age(days=40):
    """Make everything that is stored older."""
    for model, names in (
        (IdempotencyRecord, ("created_at", "finished_at")),
        (OutboxMessage, ("created_at", "settled_at")),
        (WorkflowStart, ("created_at", "settled_at")),
    ):
        for row in model.objects.all():
            times = {name: getattr(row, name) for name in names}
            model.objects.filter(pk=row.pk).update(**{n: t and t - timedelta(days=days) for n, t in times.items()})


def prune(days=30.0, **options):
    return [Pruned(), *retention.prune("default", days, **options)][-1]


@contextmanager
def beside(step):
    """Run a step on a thread, and raise what it raised when the block is left."""
    errors = []

    def run():
        try:
            step()
        except BaseException as error:  # noqa: BLE001  (raised again by the test's own thread)
            errors.append(error)
        finally:
            connections.close_all()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield thread
    finally:
        thread.join(30)
    assert errors == []

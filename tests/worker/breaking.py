"""Handlers that do this and that to their transaction, and what became of them."""

import json
from collections.abc import Callable
from typing import Any

from django.contrib.auth.models import Group
from django.db import IntegrityError, close_old_connections, connection, transaction

from orbit_django.conf import OrbitSettings
from orbit_django.models import IdempotencyRecord, OutboxMessage
from orbit_django.worker import housekeeping
from orbit_django.worker.claims import Claims
from orbit_django.worker.delivery import Deferred
from orbit_django.worker.executor import Executor
from orbit_django.worker.gate import DatabaseGate
from orbit_django.worker.patience import Patience
from tests.processes import wait_for
from tests.testapp.models import Charge
from tests.worker.words import CHARGE, NoWait, TickingClock, assignment, context, task

Handler = Callable[[Any], Any]


def execute(function: Handler, attempt: int = 1) -> tuple[str, str, int, str]:
    """Execute one attempt as a poll loop does; return kind of report, error code, charges committed, record."""
    token = f"token-{attempt}"
    patience = Patience(TickingClock(0.0), DatabaseGate(), stop=NoWait(), halt=NoWait())
    served = {CHARGE: task(function)}
    executor = Executor(OrbitSettings(worker_id="shop-1"), served, claims=Claims(30), patience=patience)
    housekeeping.before_task()
    given = assignment(token, attempt=attempt), context(token, attempt=attempt)
    # A server may take a moment to see that a connection was closed: until then the key is busy, and asked for again.
    wait_for(lambda: executor.execute(*given) is not Deferred.PARKED)
    assert housekeeping.after_task() == []
    stored = OutboxMessage.objects.get(token=token)
    code = json.loads(stored.body)["error_code"] if stored.kind == "fail" else ""
    return stored.kind, code, Charge.objects.count(), IdempotencyRecord.objects.get().status


def raw(*statements: str) -> None:
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def charge(given: Any = None) -> dict[str, str]:
    Charge.objects.create(key="e-1/charge", amount=100)
    return {"charge": "c-1"}


def swallows_an_integrity_error(given: Any) -> None:
    charge()
    for _ in range(2):
        try:
            Group.objects.create(name="unique")
        except IntegrityError:
            return


def marks_for_rollback(given: Any) -> None:
    charge()
    transaction.set_rollback(True)


def rolls_back(given: Any) -> None:
    charge()
    raw("ROLLBACK")


def closes_its_connection(given: Any) -> None:
    charge()
    connection.close()


def closes_old_connections(given: Any) -> None:
    charge()
    close_old_connections()  # Django closes a connection whose autocommit is not what the settings say


def closes_its_connection_and_goes_on(given: Any) -> None:
    closes_its_connection(given)
    charge()


def leaves_a_block_open(given: Any) -> None:
    transaction.atomic().__enter__()
    charge()


def leaves_a_block_open_that_cannot_be_committed(given: Any) -> None:
    leaves_a_block_open(given)
    transaction.set_rollback(True)


def asks_for_a_transaction_of_its_own(given: Any) -> None:
    charge()
    with transaction.atomic(durable=True):
        charge()


def ends_with_an_error(given: Any) -> None:
    charge()
    raise ValueError("no")


def ends_the_process(given: Any) -> None:
    charge()
    raise SystemExit(0)


def commits(given: Any) -> None:
    charge()
    raw("COMMIT")


def commits_and_begins_anew(given: Any) -> None:
    charge()
    raw("COMMIT", "BEGIN")


def commits_and_marks_it_as_before(given: Any) -> None:
    charge()
    raw("COMMIT", "BEGIN", "SAVEPOINT mine")


def leaves_the_block_that_it_was_called_in(given: Any) -> None:
    charge()
    transaction.atomic().__exit__(None, None, None)

"""Statements of MariaDB that share a packet: what is said, and what becomes of them when one of them fails."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from threading import Event, Thread
from typing import Any

import pytest
from django.db import OperationalError, connection, connections, transaction
from django.test.utils import CaptureQueriesContext

from orbit_django import idempotency, outbox
from orbit_django.clock import SystemClock
from orbit_django.context import TaskContext
from orbit_django.dialects.mysql import LOCK_WAIT_TIMEOUT, LONG_TEXT
from orbit_django.exceptions import TransactionEndedError
from orbit_django.models import IdempotencyRecord, OutboxMessage
from orbit_django.verdicts import Claim, Key
from orbit_django.worker.delivery import Deferred
from orbit_django.worker.parking import Parking
from tests import databases
from tests.ledger import Desk, assignment, charge
from tests.testapp.models import Charge

pytestmark = [
    pytest.mark.databases,
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(databases.chosen() != "mariadb", reason="only MariaDB takes several statements in a packet"),
]
ALONE = ["INSERT", "SAVEPOINT", "INSERT", "RELEASE", "UPDATE", "INSERT"]
TOGETHER = ["INSERT", "INSERT", "RELEASE"]


def said(desk: Desk) -> list[str]:
    """Return the first word of each packet of one delivery, but for what Django begins and ends a block with."""
    with CaptureQueriesContext(connection) as captured:
        desk.deliver({"amount": 5})
    texts = [query["sql"].replace("SET STATEMENT innodb_lock_wait_timeout=0 FOR ", "") for query in captured]
    return [text.split()[0] for text in texts if text.split()[0] not in ("BEGIN", "COMMIT", "START")]


def commits(given: Any, ctx: Any) -> None:
    charge(given, ctx)
    with connection.cursor() as cursor:
        cursor.execute("COMMIT")


@pytest.fixture
def without_packets() -> Iterator[None]:
    options = connection.settings_dict["OPTIONS"]
    options["multi_statements"] = False
    connection.close()
    yield
    del options["multi_statements"]
    connection.close()


@pytest.fixture
def claim() -> Claim:
    """A claim of a task that is not atomic, committed."""
    with transaction.atomic():
        made = idempotency.begin(Key.of(assignment(), "default"), owner="me", worker_id="tester", lease_seconds=60)
    assert isinstance(made, Claim)
    return made


def finish(claim: Claim, output: str = "1") -> OutboxMessage:
    """Store an outcome and its report as a worker does."""
    with transaction.atomic():
        report = outbox.draft(assignment(token="t"), outbox.Origin("tester", "http://runtime"), using="default")
        record = idempotency.finish(claim, output=output, report=report)
        return outbox.add(report, record, "default")


def test_claim_and_guard_share_a_packet_and_so_do_outcome_and_report() -> None:
    assert said(Desk(charge)) == TOGETHER
    record, message = IdempotencyRecord.objects.get(), OutboxMessage.objects.get()
    assert (record.status, record.output, message.record_id) == ("succeeded", '{"amount":5}', record.pk)


def test_a_report_knows_the_key_that_it_was_given() -> None:
    desk = Desk(charge)
    for name in "abc":
        message = desk.deliver(token=name, idempotency_key=name)
        assert isinstance(message, OutboxMessage)
        assert OutboxMessage.objects.get(pk=message.pk).token == name
        assert outbox.renew(message)


@pytest.mark.usefixtures("without_packets")
def test_a_project_that_has_packets_turned_off_is_served_one_statement_at_a_time() -> None:
    assert said(Desk(charge)) == ALONE
    assert OutboxMessage.objects.get().record.status == "succeeded"


@pytest.mark.promise("E1")
@pytest.mark.usefixtures("without_packets")
def test_the_guard_is_set_without_packets_as_well() -> None:
    Desk(commits).deliver()
    assert (OutboxMessage.objects.get().kind, IdempotencyRecord.objects.get().status) == ("fail", "failed")


def test_a_wrapper_of_the_project_sees_every_statement_alone() -> None:
    seen: list[str] = []

    def look(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        seen.append(sql.replace("SET STATEMENT innodb_lock_wait_timeout=0 FOR ", "").split()[0])
        return execute(sql, params, many, context)

    with connection.execute_wrapper(look):
        Desk(charge).deliver()
    assert [word for word in seen if word != "SET"] == ALONE


@pytest.mark.promise("E1")
def test_nothing_of_a_packet_runs_after_the_guard_was_found_missing() -> None:
    Desk(commits).deliver()
    record, message = IdempotencyRecord.objects.get(), OutboxMessage.objects.get()
    assert (record.status, message.kind) == ("failed", "fail")
    assert "commits implicitly" in message.body


@pytest.mark.promise("E6")
def test_a_lock_in_the_middle_of_a_packet_is_told_as_such_and_leaves_a_connection_that_works(claim: Claim) -> None:
    other = connection.copy()
    try:
        other.set_autocommit(False)
        with other.cursor() as cursor:
            cursor.execute(f"SELECT id FROM {IdempotencyRecord._meta.db_table} FOR UPDATE")
        with connection.cursor() as cursor:
            cursor.execute("SET SESSION innodb_lock_wait_timeout = 0")
        with pytest.raises(OperationalError) as raised:
            finish(claim)
    finally:
        other.close()
        with connection.cursor() as cursor:
            cursor.execute("SET SESSION innodb_lock_wait_timeout = DEFAULT")
    assert raised.value.args[0] == LOCK_WAIT_TIMEOUT
    assert not OutboxMessage.objects.exists()
    assert finish(claim).pk == OutboxMessage.objects.get().pk


@pytest.mark.promise("E9")
def test_who_has_lost_the_claim_leaves_no_report(claim: Claim) -> None:
    IdempotencyRecord.objects.update(owner="somebody else")
    with pytest.raises(TransactionEndedError):
        finish(claim)
    assert not OutboxMessage.objects.exists()
    assert IdempotencyRecord.objects.get().status == "running"


def test_a_long_output_has_a_packet_of_its_own(claim: Claim) -> None:
    with CaptureQueriesContext(connection) as captured:
        finish(claim, '"' + "x" * LONG_TEXT + '"')
    assert [query["sql"].split()[0] for query in captured if "orbit_django" in query["sql"]] == ["UPDATE", "INSERT"]


@pytest.mark.promise("E1")
def test_ddl_in_a_handler_is_found_out() -> None:
    def handler(given: Any, ctx: Any) -> None:
        charge(given, ctx)
        with connection.cursor() as cursor:
            cursor.execute(f"ANALYZE TABLE {Charge._meta.db_table}")  # commits, as every DDL does

    Desk(handler).deliver()
    assert (OutboxMessage.objects.get().kind, IdempotencyRecord.objects.get().status) == ("fail", "failed")


@pytest.mark.promise("E3", "E7")
def test_a_new_key_beside_a_retry_is_not_dropped_by_a_worker_that_stops() -> None:
    """It is nobody's, but the retry's transaction has locked the gap that it falls into."""
    beside, retried = neighbours()
    is_held, may_end, stop = Event(), Event(), Event()

    def handler(given: Any, ctx: Any) -> dict[str, Any]:
        if ctx.idempotency_key == retried:
            if ctx.attempt == 1:
                raise ValueError("not yet")
            is_held.set()
            assert may_end.wait(20)
        return charge(given, ctx)

    desk = Desk(handler)
    desk.deliver(idempotency_key=retried)
    answers: list[Any] = []

    def ask() -> bool:
        answers.append(desk.deliver(idempotency_key=beside))
        may_end.set()
        return answers[-1] is not Deferred.PARKED

    stop.set()
    seen = TaskContext(assignment(idempotency_key=beside), worker_id="tester", clock=SystemClock())
    with running(lambda: desk.deliver(idempotency_key=retried, attempt=2)) as retry:
        assert is_held.wait(20)
        Parking(0, SystemClock(), stop, lambda: 1 + retry.is_alive()).park(seen, ask, may_end.set)

    assert answers[0] is Deferred.PARKED
    assert sorted(Charge.objects.values_list("key", "attempt")) == sorted([(retried, 2), (beside, 1)])


def neighbours() -> tuple[str, str]:
    """Return the two of many keys that are nearest: a row that an earlier test has left is hardly between them."""
    places = {f"key-{number}": int(hash_of(f"key-{number}"), 16) for number in range(1_000)}
    in_order = sorted(places, key=places.__getitem__)
    return min(pairwise(in_order), key=lambda pair: places[pair[1]] - places[pair[0]])


def hash_of(key: str) -> str:
    return Key.of(assignment(idempotency_key=key), "default").hash


@contextmanager
def running(step: Callable[[], object]) -> Iterator[Thread]:
    """Run a step on a thread with a connection of its own, until the block ends and so does the step."""

    def run() -> None:
        try:
            step()
        finally:
            connections.close_all()

    thread = Thread(target=run)
    thread.start()
    try:
        yield thread
    finally:
        thread.join(30)

"""The last statement of an atomic task goes to PostgreSQL with its COMMIT, and only a whole task is committed."""

import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db import IntegrityError, connection, transaction

from orbit_django.models import IdempotencyRecord, OutboxMessage
from orbit_django.protocol import Kind
from tests import databases
from tests.ledger import Desk, charge, sent
from tests.testapp.models import Charge

pytestmark = [
    pytest.mark.databases,
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(databases.chosen() != "postgres", reason="only PostgreSQL's COMMIT goes with a statement"),
]

ROLE = "orbit_test_inserter"


@pytest.fixture(autouse=True)
def fresh_connection() -> Iterator[None]:
    connection.close()
    yield
    connection.close()


def said_to_the_server(deliver: Callable[[], object]) -> list[str]:
    """Return the first word of whatever was sent before an answer was waited for; of a kept statement, Sync."""
    link = connection.connection.pgconn
    with tempfile.TemporaryFile("w+") as file:
        link.trace(file.fileno())
        deliver()
        link.untrace()
        file.seek(0)
        sent = [line.rstrip("\n").split("\t", 3)[3] for line in file if line.split("\t")[1] == "F"]
    texts = [text.removeprefix("Query").strip(' \t"') for text in sent if text.startswith(("Query", "Sync"))]
    return [text.split()[0] for text in texts]


def test_a_task_waits_three_times_for_the_server() -> None:
    desk = Desk(charge)
    for name in ("a", "b"):
        desk.deliver(token=name, idempotency_key=name)
    said = said_to_the_server(lambda: desk.deliver(token="c", idempotency_key="c"))
    assert said == ["BEGIN;", "INSERT", "EXECUTE"]
    assert IdempotencyRecord.objects.succeeded().count() == OutboxMessage.objects.pending().count() == 3


@pytest.mark.promise("D1")
def test_the_message_has_the_key_that_it_was_written_with() -> None:
    desk = Desk(charge)
    messages = [desk.deliver({"amount": 3}, token=name, idempotency_key=name) for name in ("a", "b", "c")]
    for message in messages:
        row = OutboxMessage.objects.get(token=message.token)
        assert (row.pk, row.record_id, row.kind) == (message.pk, message.record_id, Kind.COMPLETE)
        assert sent(row) == sent(message)


@pytest.mark.promise("E1", "E2")
def test_an_outcome_that_finds_no_claim_commits_nothing_of_the_handler() -> None:
    def handler(input: Any, ctx: Any) -> dict[str, Any]:
        charge(input, ctx)
        IdempotencyRecord.objects.update(owner="somebody else")
        return {}

    desk = Desk(handler)
    message = desk.deliver()
    assert sent(message)["error_code"] == "UNHANDLED_EXCEPTION"
    assert (desk.runs, Charge.objects.count()) == (1, 0)
    assert [row.kind for row in OutboxMessage.objects.all()] == [Kind.FAIL]


@pytest.mark.promise("E1")
def test_what_only_the_commit_finds_out_is_the_failure_that_is_reported() -> None:
    def handler(input: Any, ctx: Any) -> dict[str, Any]:
        charge(input, ctx)
        Group.permissions.through.objects.create(group_id=1, permission_id=2_000_000_000)
        return {}

    Group.objects.create(pk=1, name="g")
    message = Desk(handler).deliver()
    failure = sent(message)
    assert (failure["error_code"], failure["details"]["type"]) == ("UNHANDLED_EXCEPTION", IntegrityError.__name__)
    assert Charge.objects.count() == Group.permissions.through.objects.count() == 0
    assert IdempotencyRecord.objects.get().status == "failed"


ENDING = "PERFORM pg_terminate_backend(pg_backend_pid());"
REFUSALS = [f"RAISE 'no' USING ERRCODE = '{code}';" for code in ("08006", "57P01", "23514", "P0001")]


@pytest.fixture
def at_commit(transactional_db: None) -> Iterator[Callable[[str], None]]:
    """Return a function that has every COMMIT after a row in a table do something."""

    def arrange(action: str) -> None:
        with connection.cursor() as cursor:
            cursor.execute("CREATE TABLE orbit_test_last (id serial)")
            cursor.execute(
                "CREATE FUNCTION orbit_test_end() RETURNS trigger LANGUAGE plpgsql AS "
                f"$$ BEGIN {action} RETURN NULL; END $$"
            )
            cursor.execute(
                "CREATE CONSTRAINT TRIGGER orbit_test_end AFTER INSERT ON orbit_test_last DEFERRABLE INITIALLY DEFERRED"
                " FOR EACH ROW EXECUTE FUNCTION orbit_test_end()"
            )

    yield arrange
    with connection.cursor() as cursor:
        cursor.execute("DROP TABLE orbit_test_last")
        cursor.execute("DROP FUNCTION orbit_test_end")


def insert_last() -> None:
    with connection.cursor() as cursor:
        cursor.execute("INSERT INTO orbit_test_last DEFAULT VALUES")


@pytest.mark.promise("E6")
def test_a_server_that_dies_within_the_commit_costs_another_run_and_no_second_effect(at_commit) -> None:
    def handler(input: Any, ctx: Any) -> dict[str, Any]:
        if desk.runs == 1:
            insert_last()
        return charge(input, ctx)

    at_commit(ENDING)
    desk = Desk(handler)
    message = desk.deliver()
    assert (desk.runs, Charge.objects.count()) == (2, 1)
    assert [row.pk for row in OutboxMessage.objects.all()] == [message.pk]
    assert IdempotencyRecord.objects.get().status == "succeeded"


@pytest.mark.promise("E6", "E4")
@pytest.mark.parametrize("action", [ENDING, *REFUSALS])
def test_a_commit_that_never_comes_off_is_a_failure_after_some_runs(at_commit, action: str) -> None:
    def handler(input: Any, ctx: Any) -> dict[str, Any]:
        insert_last()
        return charge(input, ctx)

    at_commit(action)
    desk = Desk(handler)
    message = desk.deliver()
    assert desk.runs <= 6
    assert (message.kind, sent(message)["error_code"]) == (Kind.FAIL, "UNHANDLED_EXCEPTION")
    assert (Charge.objects.count(), IdempotencyRecord.objects.get().status) == (0, "failed")


@pytest.mark.promise("E5")
def test_a_handler_that_changes_the_encoding_of_its_connection_changes_no_key() -> None:
    def handler(input: Any, ctx: Any) -> dict[str, Any]:
        with connection.cursor() as cursor:
            cursor.execute("SET client_encoding TO 'LATIN1'")
        return {}

    desk = Desk(handler)
    for name in ("é", "ü"):
        desk.deliver(token=name, idempotency_key=name, execution_id=name)
    connection.close()
    kept = IdempotencyRecord.objects.order_by("pk").values_list("idempotency_key", "execution_id", "status")
    assert list(kept) == [("é", "é", "succeeded"), ("ü", "ü", "succeeded")]
    assert sorted(OutboxMessage.objects.values_list("token", flat=True)) == ["é", "ü"]


@pytest.mark.promise("E1", "E4")
def test_a_handler_that_closes_the_connection_beneath_django_fails_on_record_and_leaves_nothing() -> None:
    def handler(input: Any, ctx: Any) -> dict[str, Any]:
        charge(input, ctx)
        connection.connection.close()
        return {}

    desk = Desk(handler)
    message = desk.deliver()
    assert 1 < desk.runs <= 6
    assert (message.kind, sent(message)["details"]["type"]) == (Kind.FAIL, "OperationalError")
    assert (Charge.objects.count(), IdempotencyRecord.objects.get().status) == (0, "failed")


def test_inside_a_transaction_of_somebody_else_nothing_is_committed() -> None:
    desk = Desk(charge)
    with transaction.atomic():
        desk.deliver()
        assert Charge.objects.count() == 1
        transaction.set_rollback(True)
    assert (Charge.objects.count(), OutboxMessage.objects.count()) == (0, 0)


@pytest.mark.promise("E1")
def test_hooks_of_the_handler_run_after_the_commit() -> None:
    seen: list[int] = []

    def handler(input: Any, ctx: Any) -> dict[str, Any]:
        transaction.on_commit(lambda: seen.append(others_see()))
        return charge(input, ctx)

    def others_see() -> int:
        other = connection.copy()
        with other.cursor() as cursor:
            cursor.execute(f"SELECT count(*) FROM {Charge._meta.db_table}")
            found = int(cursor.fetchone()[0])
        other.close()
        return found

    Desk(handler).deliver()
    assert seen == [1]


@pytest.fixture
def bare_role(transactional_db: None) -> Iterator[None]:
    """Be a role that may write rows and take no number of a sequence by itself."""
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE ROLE {ROLE}")
        cursor.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {ROLE}")
        cursor.execute(f"SET ROLE {ROLE}")
    yield
    with connection.cursor() as cursor:
        cursor.execute("RESET ROLE")
        cursor.execute(f"DROP OWNED BY {ROLE}")
        cursor.execute(f"DROP ROLE {ROLE}")


def test_a_role_without_a_right_to_sequences_works_all_the_same(bare_role: None) -> None:
    desk = Desk(charge)
    for name in ("a", "b"):
        desk.deliver(token=name, idempotency_key=name)
    said = said_to_the_server(lambda: desk.deliver(token="c", idempotency_key="c"))
    assert said == ["BEGIN;", "INSERT", "Sync", "COMMIT"]
    assert IdempotencyRecord.objects.succeeded().count() == OutboxMessage.objects.pending().count() == 3

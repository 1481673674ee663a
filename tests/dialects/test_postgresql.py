from collections.abc import Iterator
from typing import Any

import pytest
from django.db import DataError, OperationalError, connection, transaction
from django.test.utils import CaptureQueriesContext

from orbit_django.dialects.postgresql import PostgresqlDialect
from orbit_django.dialects.prepared import FIRST_USES
from orbit_django.models import IdempotencyRecord, OutboxMessage
from tests import databases
from tests.ledger import Desk, charge
from tests.testapp.models import Charge

pytestmark = [
    pytest.mark.databases,
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(databases.chosen() != "postgres", reason="only PostgreSQL's driver prepares statements"),
]


@pytest.fixture(autouse=True)
def dialect() -> Iterator[PostgresqlDialect]:
    connection.close()
    connection.ensure_connection()
    yield PostgresqlDialect(connection)
    connection.close()


def kept() -> list[str]:
    """Return the first words of what the server has prepared for this connection."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT statement FROM pg_prepared_statements ORDER BY prepare_time")
        return [text.split()[0] for (text,) in cursor.fetchall()]


def deliver(desk: Desk, *names: str) -> list[Any]:
    return [desk.deliver({"amount": 5}, token=name, idempotency_key=name, execution_id=name) for name in names]


def test_a_connection_keeps_the_two_statements_of_every_task(dialect: PostgresqlDialect) -> None:
    dialect.prepare()
    deliver(Desk(charge), "a", "b", "c")
    assert kept() == ["INSERT", "WITH"]
    dialect.prepare()  # as when it comes out of a pool once more
    deliver(Desk(charge), "d")
    assert kept() == ["INSERT", "WITH"]
    assert IdempotencyRecord.objects.succeeded().count() == OutboxMessage.objects.pending().count() == 4


def test_a_plan_of_a_tiny_table_does_not_outlive_its_growth(dialect: PostgresqlDialect) -> None:
    dialect.prepare()
    deliver(Desk(charge), *(f"few-{number}" for number in range(FIRST_USES)))
    with connection.cursor() as cursor:
        cursor.execute(f"ANALYZE {IdempotencyRecord._meta.db_table}")
        cursor.execute("SELECT name FROM pg_prepared_statements ORDER BY name")
        first = cursor.fetchall()
    deliver(Desk(charge), "one more")
    with connection.cursor() as cursor:
        cursor.execute("SELECT name FROM pg_prepared_statements ORDER BY name")
        second = cursor.fetchall()
    assert len(first) == len(second) == 2
    assert not set(first) & set(second)
    deliver(Desk(charge), *(f"many-{number}" for number in range(FIRST_USES * 4 - 1)))
    with connection.cursor() as cursor:
        cursor.execute("SELECT name FROM pg_prepared_statements ORDER BY name")
        assert cursor.fetchall() == second  # and not at every task
    assert IdempotencyRecord.objects.succeeded().count() == FIRST_USES * 5


def test_a_log_shows_what_was_said_with_its_values(dialect: PostgresqlDialect) -> None:
    desk = Desk(charge)
    deliver(desk, "a")
    with CaptureQueriesContext(connection) as captured:
        deliver(desk, "b")
    said = [query["sql"] for query in captured]
    assert [text.split()[0] for text in said] == ["BEGIN", "INSERT", "INSERT", "WITH", "COMMIT"]
    assert "'b'" in said[1]


def test_wrappers_of_a_project_see_every_statement(dialect: PostgresqlDialect) -> None:
    said: list[str] = []

    def note(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        said.append(sql.split(maxsplit=1)[0])
        return execute(sql, params, many, context)

    desk = Desk(charge)
    with connection.execute_wrapper(note):
        deliver(desk, "a")
    assert said == ["INSERT", "INSERT", "WITH"]


def test_a_connection_through_a_pooler_keeps_none(dialect: PostgresqlDialect) -> None:
    desk = Desk(charge)
    connection.close()
    connection.ensure_connection()
    dialect.keep_statements(connection.connection.info.backend_pid + 1)
    deliver(desk, "a", "b")
    assert kept() == []


@pytest.mark.parametrize("decided", [None, 5])
def test_a_project_decides_otherwise(
    dialect: PostgresqlDialect, monkeypatch: pytest.MonkeyPatch, decided: int | None
) -> None:
    monkeypatch.setitem(connection.settings_dict, "OPTIONS", {"prepare_threshold": decided})
    deliver(Desk(charge), "a", "b")
    assert kept() == []


def test_another_connection_of_the_thread_keeps_its_own(dialect: PostgresqlDialect) -> None:
    desk = Desk(charge)
    deliver(desk, "a")
    connection.close()
    deliver(desk, "b")
    assert kept() == [], "nobody has prepared the new connection"
    PostgresqlDialect(connection).prepare()
    deliver(desk, "c")
    assert kept() == ["INSERT", "WITH"]


@pytest.mark.promise("E6")
def test_statements_that_somebody_removed_are_said_in_full(dialect: PostgresqlDialect) -> None:
    """A handler that takes them away is run again, since its transaction was undone; its effect is there once."""

    def removing(input: Any, ctx: Any) -> dict[str, Any]:
        connection.connection.pgconn.exec_(b"DEALLOCATE ALL")  # the driver does not see it
        return charge(input, ctx)

    dialect.prepare()
    deliver(Desk(charge), "a")
    desk = Desk(removing)
    deliver(desk, "b")
    assert desk.runs == 2
    deliver(desk, "c")
    assert desk.runs == 3
    assert kept() == []
    assert Charge.objects.count() == IdempotencyRecord.objects.succeeded().count() == 3


def test_statements_removed_between_two_tasks_cost_no_run(dialect: PostgresqlDialect) -> None:
    desk = Desk(charge)
    deliver(desk, "a")
    connection.connection.pgconn.exec_(b"DEALLOCATE ALL")
    deliver(desk, "b")
    assert desk.runs == 2
    assert Charge.objects.count() == 2


@pytest.mark.parametrize(
    "text", ["it's", "a\\b", "'; DROP TABLE x; --", "100%s", "$1", "é\u2028\U0001f600", '"', "E'\\'"]
)
def test_any_text_passes_a_kept_statement(dialect: PostgresqlDialect, text: str) -> None:
    dialect.prepare()
    Desk(charge).deliver({"amount": 5}, token=text, idempotency_key=text, execution_id=text)
    record = IdempotencyRecord.objects.get()
    assert (record.idempotency_key, record.execution_id) == (text, text)
    assert OutboxMessage.objects.get().token == text
    assert Desk(charge).deliver({"amount": 5}, token="again", idempotency_key=text) is not None
    assert Charge.objects.count() == 1


def test_a_text_is_never_cut_at_a_nul(dialect: PostgresqlDialect) -> None:
    dialect.prepare()
    with transaction.atomic(), pytest.raises(DataError):
        dialect._hot_row("SELECT length(%s::text)", ["a\x00b"])
    with transaction.atomic():
        assert dialect._hot_row("SELECT length(%s::text)", ["häß"]) == (3,)


@pytest.mark.parametrize("wanted", ["read committed", "repeatable read", "serializable"])
def test_the_transaction_is_as_isolated_as_the_project_wants(dialect: PostgresqlDialect, wanted: str) -> None:
    from psycopg import IsolationLevel

    if wanted != "read committed":
        connection.connection.isolation_level = IsolationLevel[wanted.replace(" ", "_").upper()]
    dialect.prepare()
    with transaction.atomic():
        found = dialect._hot_row("SELECT (current_setting('transaction_isolation') = %s)::int", [wanted])
        assert found == (1,)
        assert connection.connection.info.transaction_status.name == "INTRANS"


@pytest.mark.promise("E6")
def test_a_connection_that_is_gone_is_known_as_such(dialect: PostgresqlDialect) -> None:
    dialect.prepare()
    assert dialect._hot_row("SELECT %s::int", [1]) == (1,)
    other = connection.copy()
    with other.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(%s, 10000)", [connection.connection.info.backend_pid])
    other.close()
    with pytest.raises(OperationalError) as caught:
        dialect._hot_row("SELECT %s::int", [1])
    assert dialect.is_connection_lost(caught.value)


@pytest.mark.parametrize(("model", "count"), [(IdempotencyRecord, 4), (OutboxMessage, 6)])
def test_a_task_pays_for_so_many_indexes(
    dialect: PostgresqlDialect, model: type[IdempotencyRecord | OutboxMessage], count: int
) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT indexname FROM pg_indexes WHERE tablename = %s", [model._meta.db_table])
        found = cursor.fetchall()
    assert len(found) == count, found


@pytest.mark.parametrize("model", [IdempotencyRecord, OutboxMessage])
def test_one_index_finds_executions_and_beginnings_of_their_ids(
    dialect: PostgresqlDialect, model: type[IdempotencyRecord | OutboxMessage]
) -> None:
    rows = model._default_manager.values("pk")
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
        for found in (rows.filter(execution_id="e1"), rows.filter(execution_id__startswith="exec-")):
            assert "_execution_id on" in found.explain()

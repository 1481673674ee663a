from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connections
from django.utils import timezone

from orbit_django import checks, starts
from orbit_django.dialects import dialect_of
from orbit_django.doctor.databases import Load, look_at_database, look_at_pool
from orbit_django.doctor.findings import Finding, Level
from orbit_django.models import Effect, IdempotencyRecord, OutboxMessage, WorkflowStart
from tests import databases
from tests.worker.relaying import Status, due, earn

pytestmark = [pytest.mark.databases, pytest.mark.django_db(transaction=True)]

ON_MARIADB = pytest.mark.skipif(databases.chosen() != "mariadb", reason="only there tables have such forms")


def looked(load: Load = Load(4), level: Level | None = None) -> list[Finding]:  # noqa: B008  (it is frozen)
    return [found for found in look_at_database("default", load) if level in (None, found.level)]


def texts(level: Level) -> list[str]:
    return [found.text for found in looked(level=level)]


def test_a_database_that_is_as_it_should_be() -> None:
    found = looked()

    assert {finding.level for finding in found} == {Level.OK}
    product = {"sqlite": "SQLite", "postgres": "PostgreSQL", "mariadb": "MariaDB"}[databases.chosen()]
    assert found[0].text.startswith(product)
    assert "every migration of orbit_django is applied" in texts(Level.OK)
    assert "no message is pending" in texts(Level.OK)
    assert ("SKIP LOCKED" in found[0].text) == (databases.chosen() != "sqlite")


def test_what_waits_for_a_person_is_wrong() -> None:
    old = due("token-1")
    OutboxMessage.objects.filter(pk=old.pk).update(created_at=timezone.now() - timedelta(hours=1))
    blocked = earn("token-2")
    OutboxMessage.objects.filter(pk=blocked.pk).update(status=Status.BLOCKED, due_at=None)
    record = IdempotencyRecord.objects.first()
    Effect.objects.create(record=record, name="call", name_hash="x", status="uncertain", started_at=timezone.now())

    assert texts(Level.WRONG) == [
        "1 message blocked",
        "1 effect uncertain: nobody knows whether the call happened",
    ]
    assert texts(Level.NOTE)[0].startswith("1 message pending, the oldest for 36")


@pytest.mark.promise("D1")
def test_starts_that_nobody_can_send_are_wrong() -> None:
    assert "no start of a workflow is pending" in texts(Level.OK)
    starts.append("Checkout", {}, "order-1", using="default")

    (found,) = looked(Load(4, may_start=False), Level.WRONG)
    assert found.text == "1 workflow start pending, and TOKEN is not set"
    assert "ORBIT_TOKEN" in found.advice
    (found,) = looked(Load(4, may_start=True), Level.NOTE)
    assert found.text == "1 workflow start pending"
    WorkflowStart.objects.update(status="blocked", due_at=None)
    assert texts(Level.WRONG) == ["1 workflow start blocked"]


def test_what_was_refused_for_good_is_told() -> None:
    before, last = (datetime(2026, 5, day, 7, 30, tzinfo=UTC) for day in (1, 2))
    refused = {"status": "refused", "due_at": None}
    for number, told in enumerate(("output violates the contract", "no such step", "stale attempt")):
        message = OutboxMessage.objects.filter(pk=earn(f"token-{number}").pk)
        message.update(**refused, reason=told, settled_at=(before, last, timezone.now())[number])
    starts.append("Chekout", {}, "order-1", using="default")
    WorkflowStart.objects.update(**refused, settled_at=before)

    assert texts(Level.NOTE) == [
        "2 messages refused by the runtime for good, the last one at 2026-05-02 07:30 UTC",
        "1 workflow start refused by the runtime for good, the last one at 2026-05-01 07:30 UTC",
    ]


def test_the_budget_of_connections() -> None:
    assert Load(4).connections == 16
    assert Load(4, 3).connections == 48
    limit = dialect_of("default").max_connections()
    if databases.chosen() == "sqlite":
        assert limit is None
        return
    assert limit is not None
    (found,) = looked(Load(limit), Level.WRONG)
    assert f"the server allows {limit}" in found.text
    (found,) = looked(Load(limit // 3), Level.NOTE)
    assert found.text.endswith(f"of {limit}")


def test_a_pool_that_is_too_small_for_one_process_is_wrong() -> None:
    (found,) = look_at_pool("database default", 15, Load(4, 3))
    assert (found.level, found.text) == (
        Level.WRONG,
        "its pool holds 15 connections, and a process with 4 poll loops takes up to 16",
    )
    assert [*look_at_pool("database default", 16, Load(4, 3)), *look_at_pool("database default", None, Load(4))] == []


def test_a_database_that_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    from django.db import OperationalError

    def lose(self: object) -> None:
        raise OperationalError("gone\nand more")

    monkeypatch.setattr(type(connections["default"]), "get_database_version", lose)
    (found,) = looked()

    assert (found.level, found.text) == (Level.WRONG, "cannot be used: gone")


def test_a_missing_migration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "missing_migrations", lambda using: 1)

    assert [(found.text, found.advice) for found in looked(level=Level.WRONG)] == [
        ("lacks 1 migration of orbit_django", "run manage.py migrate")
    ]


@ON_MARIADB
@pytest.mark.promise("W8")
@pytest.mark.parametrize(
    ("model", "change", "back", "text"),
    [
        (OutboxMessage, "CONVERT TO CHARACTER SET utf8mb3", "CONVERT TO CHARACTER SET utf8mb4", "columns in utf8mb3"),
        (Effect, "ROW_FORMAT=COMPACT", "ROW_FORMAT=DYNAMIC", "the row format Compact"),
    ],
)
def test_tables_that_cannot_keep_what_they_are_given(model: Any, change: str, back: str, text: str) -> None:
    table = model._meta.db_table
    with connections["default"].cursor() as cursor:
        cursor.execute(f"ALTER TABLE {table} {change}")
        try:
            (found,) = looked(level=Level.WRONG)
            (warned,) = checks.check_tables(["default"])
            (refused,) = checks.databases.database_faults("default")
        finally:
            connections["default"].cursor().execute(f"ALTER TABLE {table} {back}")

    assert text in found.text
    assert found.advice == f"ALTER TABLE {table} {back}"
    assert (warned.id, text in warned.msg, back in warned.hint) == ("orbit_django.W002", True, True)
    assert text in refused
    assert looked(level=Level.WRONG) == []


@pytest.mark.django_db(transaction=True, databases=["default", "other"])
def test_tables_as_they_are_made_have_no_fault() -> None:
    assert checks.check_tables(["default", "other"]) == []
    assert checks.check_tables() == []

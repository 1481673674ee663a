"""What the database undid for a passing reason is run again by the worker: at most five times, then it has failed."""

import pytest
from django.db import connection, transaction

from orbit_django.models import IdempotencyRecord, OutboxMessage
from tests import databases
from tests.crash.conftest import ON_A_SERVER
from tests.crash.tasks_orbit import lock
from tests.crash.world import World
from tests.testapp.models import Charge

pytestmark = [
    pytest.mark.databases,
    pytest.mark.django_db(transaction=True),
    pytest.mark.timeout(90),
    pytest.mark.promise("E6"),
    ON_A_SERVER,
]


def fail_codes() -> list[str]:
    """Return the codes of the failures that were reported."""
    errors = IdempotencyRecord.objects.exclude(error=None).values_list("error", flat=True)
    return [error.split('"error_code":"')[1].split('"')[0] for error in errors]


def keys(*wanted: str) -> None:
    """Make rows for handlers to quarrel about."""
    Charge.objects.bulk_create(Charge(key=key) for key in wanted)


def test_the_victim_of_a_deadlock_is_run_again(made: World) -> None:
    keys("a", "b")
    made.play("e1", "Crossing", "a b e2")
    made.play("e2", "Crossing", "b a e1")
    made.worker()
    assert [made.wait_for_end(name).status for name in ("e1", "e2")] == ["COMPLETED"] * 2
    assert len(made.notes("e1", "run") + made.notes("e2", "run")) == 3
    assert [Charge.objects.filter(key=f"{name}/crossing").count() for name in ("e1", "e2")] == [1, 1]
    assert set(OutboxMessage.objects.values_list("kind", flat=True)) == {"complete"}


@pytest.mark.skipif(databases.chosen() != "postgres", reason="only PostgreSQL refuses to overwrite what it did not see")
def test_no_update_is_lost_under_repeatable_read(made: World) -> None:
    keys("counter")
    from psycopg import IsolationLevel

    url = made.environment.get("ORBIT_TEST_POSTGRES_URL") or databases.URLS["postgres"][1]
    made.environment["ORBIT_TEST_POSTGRES_URL"] = f"{url}?isolation_level={IsolationLevel.REPEATABLE_READ.value}"
    for number in range(4):
        made.play(f"e{number}", "Counting", pause_ms=60)
    made.worker()
    assert [made.wait_for_end(f"e{number}").status for number in range(4)] == ["COMPLETED"] * 4
    assert Charge.objects.get(key="counter").amount == 4
    assert sum(len(made.notes(f"e{number}", "run")) for number in range(4)) > 4


def test_a_lock_that_is_freed_in_time_costs_nothing_but_another_run(made: World) -> None:
    keys("wanted")
    made.play("e1", "Waiting")
    with transaction.atomic():
        lock("wanted")
        made.worker(concurrency=1)
        made.wait_for_note("e1", "run", 2)
    assert made.wait_for_end("e1").status == "COMPLETED"
    assert made.events("e1", "StepAttemptFailed") == 0


def test_after_five_more_runs_a_lock_that_stays_has_failed_the_attempt(made: World) -> None:
    keys("wanted")
    made.play("e1", "Waiting")
    with transaction.atomic():
        lock("wanted")
        made.worker(concurrency=1)
        error = made.wait_for_end("e1").error
    assert error["code"] == "UNHANDLED_EXCEPTION"
    assert len(made.notes("e1", "run")) == 6
    assert '"retryable":true' in OutboxMessage.objects.get().body
    assert not Charge.objects.filter(key="e1/waiting").exists()


@pytest.mark.parametrize(("kills", "runs"), [(1, 2), (5, 6), (99, 6)])
def test_a_connection_that_the_server_ends_in_a_handler(made: World, kills: int, runs: int) -> None:
    made.play("e1", "Losing", str(kills))
    made.worker(concurrency=1)
    is_saved = kills < runs
    assert made.wait_for_end("e1").status == ("COMPLETED" if is_saved else "FAILED")
    assert len(made.notes("e1", "run")) == runs
    assert Charge.objects.count() == int(is_saved)
    assert IdempotencyRecord.objects.get().status == ("succeeded" if is_saved else "failed")
    assert fail_codes() == ([] if is_saved else ["UNHANDLED_EXCEPTION"])
    assert connection.is_usable()

"""The answer to a COMMIT is lost: whatever the database did, the effect is there once and is reported as what it is."""

import sqlite3
from collections.abc import Iterator

import pytest
from django.db import connection

from orbit_django.models import Effect, IdempotencyRecord, OutboxMessage
from orbit_django.protocol import Kind
from tests import databases
from tests.crash.conftest import ON_A_SERVER
from tests.crash.proxy import WAYS, Proxy
from tests.crash.world import World, wait_for
from tests.ledger import Desk
from tests.processes import wait_until_alone
from tests.testapp.models import Charge

pytestmark = [pytest.mark.databases, pytest.mark.django_db(transaction=True), pytest.mark.timeout(120)]

COMMITS = ("begin", "end", "transaction", "store")  # of a task that is not atomic
SLOW = """
CREATE FUNCTION crash_slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.3); RETURN NULL; END $$;
"""
TRIGGER = "CREATE CONSTRAINT TRIGGER crash_slow AFTER INSERT OR UPDATE ON {} DEFERRABLE INITIALLY DEFERRED \
FOR EACH ROW EXECUTE FUNCTION crash_slow()"


@pytest.fixture
def slow_commits(transactional_db) -> Iterator[None]:
    """Let every COMMIT take a while on the server, where the server can be told so."""
    if connection.vendor != "postgresql":
        yield
        return
    tables = [model._meta.db_table for model in (IdempotencyRecord, Effect, Charge)]
    with connection.cursor() as cursor:
        cursor.execute(SLOW)
        for table in tables:
            cursor.execute(TRIGGER.format(table))
    yield
    with connection.cursor() as cursor:
        cursor.execute("DROP FUNCTION crash_slow() CASCADE")


@ON_A_SERVER
@pytest.mark.promise("E6", "E1", "E10")
@pytest.mark.parametrize("how", WAYS)
def test_one_effect_and_the_truth_reported_however_a_commit_was_lost(
    distant: World, proxy: Proxy, slow_commits: None, how: str
) -> None:
    names = ["success", "failure", "claim", *COMMITS]
    marks = {name: f"strike e-{name}" for name in names} | {"claim": "e-claim/staged"}
    strikes = {name: proxy.strike(how, marks[name]) for name in names}
    distant.play("e-success", "Marked")
    distant.play("e-failure", "Marked", "fail")
    for name in ("claim", *COMMITS):
        distant.play(f"e-{name}", "Staged", name)
    distant.worker(concurrency=7)
    for name in names:
        distant.wait_for_end(f"e-{name}", 20)  # sooner than a claim ends by itself
    assert [name for name in names if not strikes[name].struck.is_set()] == []
    assert distant.execution("e-failure").error["code"] == "REFUSED"
    for name in names:
        check(distant, name)


def check(distant: World, name: str) -> None:
    """See that both tables, the business and the runtime agree about one execution."""
    is_failure = name == "failure"
    execution = f"e-{name}"
    record = IdempotencyRecord.objects.get(execution_id=execution)
    wait_for(lambda: not record.messages.undelivered().exists(), 20, "the report is answered")
    assert record.status == ("failed" if is_failure else "succeeded"), name
    assert [message.kind for message in record.messages.all()] == [Kind.FAIL if is_failure else Kind.COMPLETE], name
    assert Charge.objects.filter(key=record.idempotency_key).count() == (0 if is_failure else 1), name
    assert distant.events(execution, "StepAttemptFailed") == int(is_failure), name
    assert distant.events(execution, "StepSucceeded") == int(not is_failure), name
    assert len(distant.notes(execution, "call")) == int(name not in ("success", "failure")), name


@pytest.mark.skipif(databases.chosen() != "sqlite", reason="only a file has a reader that holds up a COMMIT")
@pytest.mark.promise("E6")
def test_a_commit_that_a_reader_holds_up_is_known_to_be_undone_and_run_again() -> None:
    def handler(input, ctx):
        if desk.runs == 2:
            reader.close()
        Charge.objects.create(key="k")
        return {"run": desk.runs}

    desk = Desk(handler)
    wait_until_alone()
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA journal_mode=DELETE")
        cursor.execute("PRAGMA busy_timeout=50")
    reader = sqlite3.connect(connection.settings_dict["NAME"], isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM testapp_charge").fetchone()
    result = desk.deliver()
    assert desk.runs == 2
    assert isinstance(result, OutboxMessage)
    assert result.kind == Kind.COMPLETE
    assert (Charge.objects.count(), IdempotencyRecord.objects.get().output) == (1, '{"run":2}')

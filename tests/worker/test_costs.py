"""What one task costs in statements: counts, so that a change which adds one is seen."""

import logging

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from orbit_django.logs import redacting
from orbit_django.worker.relay import Relay
from tests.ledger import Desk, charge
from tests.worker.relaying import World, earn

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.databases]

GUARD = ["SAVEPOINT", "RELEASE"]  # tells whether the transaction is the same, where rows do not
TAKES_TWO = ["UPDATE", "INSERT"]  # the record, the report
WAYS = {
    "postgresql": ["BEGIN", "INSERT", "INSERT", "WITH", "COMMIT"],
    "mysql": ["INSERT", "INSERT", GUARD[1]],  # in one packet each: claim and guard; guard, record and report
    "sqlite": ["BEGIN", "INSERT", GUARD[0], "INSERT", GUARD[1], *TAKES_TWO, "COMMIT"],
}


def words(captured: CaptureQueriesContext) -> list[str]:
    """Return the first word of each statement; a lock wait that a statement sets for itself is part of it."""
    said = (query["sql"].replace("SET STATEMENT innodb_lock_wait_timeout=0 FOR ", "") for query in captured)
    return [text.split()[0].rstrip(";") for text in said]


def test_an_atomic_task_takes_so_many_statements() -> None:
    desk = Desk(charge)
    desk.deliver({"amount": 1}, token="warm", idempotency_key="warm", execution_id="warm")
    with CaptureQueriesContext(connection) as captured:
        desk.deliver({"amount": 5}, token="t1")
    found = words(captured)
    if connection.vendor == "mysql":
        found = [word for word in found if word not in ("BEGIN", "COMMIT", "START")]
    assert found == WAYS[connection.vendor]


def test_a_replay_takes_so_many_statements() -> None:
    desk = Desk(charge)
    desk.deliver({"amount": 5}, token="t1")
    with CaptureQueriesContext(connection) as captured:
        desk.deliver({"amount": 5}, token="t2")
    inside = [word for word in words(captured) if word not in ("BEGIN", "COMMIT", "START")]
    assert inside == ["INSERT", "SELECT", "SELECT", "INSERT"], "asked for, locked, reported before?, reported"


def test_a_report_takes_one_call_and_no_statement_of_its_own() -> None:
    world = World(group_seconds=0.05)
    world.relay.deliver(earn("before"))
    messages = [earn(f"token-{number}") for number in range(5)]
    with CaptureQueriesContext(connection) as captured:
        for message in messages:
            world.relay.deliver(message)
        world.relay.filing.flush()
    assert words(captured) == ["UPDATE"]
    assert len(world.sent()) == 6


def test_an_idle_relay_asks_once_in_three_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    relay: Relay = World().relay
    with CaptureQueriesContext(connection) as captured:
        assert relay.step() == 3.0
    assert words(captured) == ["SELECT"]


@pytest.mark.parametrize("text", ["nothing to hide", "a secret"])
def test_a_log_line_is_searched_for_secrets_once(text: str) -> None:
    searched: list[str] = []

    def redact(given: str) -> str:
        searched.append(given)
        return given.replace("secret", "****")

    with redacting(redact):
        logging.getLogger("orbit_django.worker.relay").error("told", extra={"one": text, "two": 2})
    assert len(searched) == 1

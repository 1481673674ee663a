from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from orbit_django.exceptions import NoAnswerError
from orbit_django.models import OutboxMessage
from orbit_django.protocol import Receipt
from orbit_django.worker.vitals import Vitals
from tests.worker.relaying import Status, World, due, earn
from tests.worker.words import refusal

pytestmark = [pytest.mark.databases, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def vitals() -> Vitals:
    return Vitals()


@pytest.fixture
def world(vitals: Vitals) -> World:
    return World(vitals=vitals)


@pytest.mark.parametrize(
    ("answer", "result"),
    [
        (Receipt(accepted=True), "delivered"),
        (Receipt(accepted=False, reason="stale attempt"), "superseded"),
        (Receipt(accepted=False, reason="the moon is full"), "not_accepted"),
        (NoAnswerError("down"), "no_answer"),
        (refusal(401), "blocked"),
        (refusal(404, is_from_runtime=False), "blocked"),
    ],
)
def test_tries_are_counted_by_what_came_of_them(world: World, vitals: Vitals, answer: Any, result: str) -> None:
    world.transport.script("send", answer)
    world.relay.deliver(earn())

    assert vitals.numbers().counts == [["delivery_attempts", result, 1]]


def test_a_refused_result_and_the_failure_that_follows_are_two_tries(world: World, vitals: Vitals) -> None:
    world.transport.script("send", refusal(422, "BAD"))
    world.relay.deliver(earn())

    assert sorted(vitals.numbers().counts) == [
        ["delivery_attempts", "delivered", 1],
        ["delivery_attempts", "refused", 1],
    ]


@pytest.mark.promise("W10")
def test_only_a_look_that_the_database_answered_counts(vitals: Vitals, monkeypatch: pytest.MonkeyPatch) -> None:
    from django.db import OperationalError

    from orbit_django import outbox

    def lose(*given: object, **options: object) -> None:
        raise OperationalError("gone")

    world = World(vitals=vitals)
    seen = vitals.looked_at
    assert seen is not None
    monkeypatch.setattr(outbox, "claim_due", lose)
    world.relay.step()
    assert vitals.looked_at == seen
    monkeypatch.undo()
    world.relay.step()
    assert vitals.looked_at > seen


@pytest.mark.promise("D6")
def test_an_idle_relay_asks_once_a_look_whether_it_measures_or_not(world: World, vitals: Vitals) -> None:
    vitals.is_watched = True
    asked: list[str] = []

    def ask(execute: Any, sql: str, *rest: Any) -> Any:
        asked.append(sql)
        return execute(sql, *rest)

    with connection.execute_wrapper(ask):
        world.relay.step()
        world.relay.step()
    assert ["COUNT" in sql for sql in asked] == [True, False]
    assert vitals.numbers().outbox == {"default": [0, 0, None]}


def test_what_is_owed_is_measured_and_sent_in_the_same_look(world: World, vitals: Vitals) -> None:
    world.relay.deliver(earn("token-0"))
    old = due("token-1")
    OutboxMessage.objects.filter(pk=old.pk).update(created_at=timezone.now() - timedelta(seconds=90))
    due("token-2")
    OutboxMessage.objects.filter(pk=earn("token-3").pk).update(status=Status.BLOCKED, due_at=None)
    vitals.is_watched = True
    assert world.look() == 2
    pending, blocked, age = vitals.numbers().outbox["default"]

    assert (pending, blocked) == (2, 1)
    assert 90 <= age < 100


def test_counting_what_is_owed_has_a_limit(world: World) -> None:
    for number in range(5):
        due(f"token-{number}")

    assert OutboxMessage.objects.depth(3)["pending"] == 3
    assert OutboxMessage.objects.depth()["pending"] == 5

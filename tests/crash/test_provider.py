"""A provider that counts calls, workers that are killed around them: nothing is charged twice, nothing is forgotten.

`CRASH_LONG=1` makes it 100 tasks and 30 kills.
"""

import json
import os
import random
from collections import Counter
from collections.abc import Callable

import pytest

from orbit_django.effects import settle
from orbit_django.models import Effect, IdempotencyRecord, OutboxMessage
from tests.crash.world import World, kill, wait_for

IS_LONG = bool(os.environ.get("CRASH_LONG"))
TASKS, KILLS = (100, 30) if IS_LONG else (12, 5)
SETTINGS = {"CLAIM_SECONDS": 1, "POLL_WAIT_MS": 300, "MAX_REDELIVERIES": 50}

pytestmark = [
    pytest.mark.databases,
    pytest.mark.django_db(transaction=True),
    pytest.mark.timeout(600 if IS_LONG else 120),
    pytest.mark.promise("E10"),
]


def names() -> list[str]:
    return [f"e{number}" for number in range(TASKS)]


def pay_and_kill(made: World, look: Callable[[], object]) -> None:
    """Have every task pay while workers die around the calls; ``look`` is called all the time."""
    chance = random.Random(TASKS)  # noqa: S311  (no secret)
    for _ in range(KILLS):
        worker = made.worker(**SETTINGS)
        began, moment = len(made.faults.times("poll")), chance.randint(2, 9)
        wait_for(
            lambda now=worker, then=began + moment: look() or now.poll() is not None or calls(made) >= then, 30, "work"
        )
        if worker.poll() is None:
            kill(worker)


def calls(made: World) -> int:
    """Count the polls, which go on as long as a worker is well."""
    return len(made.faults.times("poll"))


def end(made: World, look: Callable[[], object]) -> None:
    """Let workers, replaced when a handler kills them, do the rest."""
    worker = made.worker(**SETTINGS)

    def is_done() -> bool:
        nonlocal worker
        if worker.poll() is not None:
            worker = made.worker(**SETTINGS)
        look()
        return made.are_all_completed()

    wait_for(is_done, 400 if IS_LONG else 80, "every task completes")
    made.end_holds()
    wait_for(lambda: not OutboxMessage.objects.undelivered().exists(), 20, "no message is left")
    assert not Effect.objects.exclude(status=Effect.Status.FINISHED).exists()
    assert IdempotencyRecord.objects.succeeded().count() == TASKS


def provided(made: World, name: str) -> Counter[str]:
    """Return how often the provider was called, by key."""
    return Counter(made.notes(name, "provider"))


def test_a_provider_that_deduplicates_charges_every_key_once(made: World) -> None:
    for number, name in enumerate(names()):
        side = {0: " before", 1: " after"}.get(number, "")
        made.play(name, "Paying", f"idempotent{side}", pause_ms=60)
    pay_and_kill(made, lambda: None)
    end(made, lambda: None)
    keys = [provided(made, name) for name in names()]
    assert all(len(counted) == 1 for counted in keys)
    assert len({key for counted in keys for key in counted}) == TASKS
    assert provided(made, "e1").total() >= 2  # its process died after the first


def test_without_deduplication_nothing_is_called_twice_and_people_settle_the_rest(made: World) -> None:
    for number, name in enumerate(names()):
        side = ("before", "after", "", "")[number % 4] if number < 6 else ""
        made.play(name, "Paying", side, pause_ms=60)
    settled: Counter[bool] = Counter()

    def look() -> None:
        for effect in Effect.objects.uncertain().select_related("record"):
            called = made.notes(effect.record.execution_id, "provider")
            settle(
                effect, result=json.dumps({"nonce": called[0]}) if called else None, settled_by="the provider's books"
            )
            settled[bool(called)] += 1

    pay_and_kill(made, look)
    end(made, look)
    assert [provided(made, name).total() for name in names()] == [1] * TASKS
    assert set(settled) == {False, True}
    assert settled[True] == Effect.objects.exclude(settled_by="").count()

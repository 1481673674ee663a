"""Kill -9 at each step of a task, exactly placed: what is there then, and how it goes on."""

import signal
from pathlib import Path

import pytest

from orbit_django.models import IdempotencyRecord, OutboxMessage
from tests import databases
from tests.crash.world import World, counted, wait_for, world
from tests.testapp.models import Charge

pytestmark = [pytest.mark.databases, pytest.mark.django_db(transaction=True), pytest.mark.timeout(60)]

BEFORE_COMMIT = ["loop", "executor", "idempotency", "handler", "report"]
AFTER_COMMIT = ["relay", "receipt"]
# On PostgreSQL what writes the report commits it.
(AFTER_COMMIT if databases.chosen() == "postgres" else BEFORE_COMMIT).append("outbox")


@pytest.fixture(params=["http", "grpc"])
def crashing(request, child_environment: dict[str, str], tmp_path: Path):
    with world(child_environment, tmp_path, request.param) as made:
        made.start("e1", 5)
        yield made


def die_at(made: World, step: str) -> None:
    process = made.worker(step, concurrency=1)
    assert process.wait(30) == -signal.SIGKILL, made.log.read_text()


def recover(made: World) -> None:
    made.worker()
    wait_for(made.are_all_completed, 30, "the execution completes under another worker")
    made.end_holds()
    wait_for(lambda: not OutboxMessage.objects.undelivered().exists(), 10, "no message is left")


@pytest.mark.promise("E1", "E7", "W5")
@pytest.mark.parametrize("step", BEFORE_COMMIT)
def test_death_before_the_commit_leaves_nothing(crashing, step):
    die_at(crashing, step)
    assert counted() == (0, 0, 0)
    recover(crashing)
    assert Charge.objects.count() == 1
    assert crashing.events("e1", "StepAttemptUncertain") == 1
    assert [message.kind for message in OutboxMessage.objects.all()] == ["complete"]


@pytest.mark.promise("E1", "E2", "D1")
@pytest.mark.parametrize("step", AFTER_COMMIT)
def test_death_after_the_commit_leaves_everything(crashing, step):
    die_at(crashing, step)
    assert counted() == (1, 1, 1)
    assert IdempotencyRecord.objects.get().status == "succeeded"
    assert OutboxMessage.objects.get().status == "pending"
    recover(crashing)
    assert Charge.objects.count() == 1


@pytest.mark.promise("D1", "D4")
def test_a_report_that_was_answered_unheard_is_settled_as_superseded(crashing):
    die_at(crashing, "receipt")
    recover(crashing)
    message = OutboxMessage.objects.get()
    assert (message.status, message.accepted) == ("refused", False)
    assert message.reason.startswith("unknown token")

from pathlib import Path

import pytest

from orbit_django.embedded.store import SqliteStore
from tests.contracts.texts import GREET
from tests.embedded.test_runtime import ACCEPTED, GOOD
from tests.embedded.world import World


@pytest.fixture(params=["memory", "file"])
def world(request, tmp_path: Path):
    store = SqliteStore(tmp_path / "runtime.db") if request.param == "file" else None
    world = World(store=store)
    yield world
    world.store.close()


def test_sessions_are_forgotten_and_tokens_are_kept(world: World) -> None:
    session, task = world.held()
    world.restart(GREET)

    assert world.runtime.sessions.find(session) is None
    assert world.runtime.complete(task["token"], GOOD) == ACCEPTED
    assert world.execution().status == "COMPLETED"


def test_a_failure_reported_within_the_grace_counts(world: World) -> None:
    _, task = world.held()
    world.restart(GREET)
    session = world.session()
    assert world.fail(task["token"]) == ACCEPTED
    world.passes(1)

    assert world.task(session)["attempt"] == 2


def test_what_nobody_reports_is_delivered_again_after_one_session_timeout(world: World) -> None:
    _, first = world.held()
    world.restart(GREET)
    world.passes(1)
    session = world.session()
    world.passes(4.9)
    assert world.runtime.poll(session) is None
    world.passes(0.1)
    second = world.task(session)

    assert (second["attempt"], second["redelivery"]) == (1, True)
    assert world.runtime.complete(first["token"], GOOD) == ACCEPTED


def test_the_end_of_the_grace_leaves_a_later_delivery_alone(world: World) -> None:
    _, task = world.held()
    world.restart(GREET)
    world.fail(task["token"])
    world.passes(1)
    session = world.session()
    world.task(session)
    world.passes(5)

    assert world.runtime.poll(session) is None


def test_what_was_queued_is_still_queued_in_its_order(world: World) -> None:
    for name in ("b", "a"):
        world.greet(name)
    world.restart(GREET)
    session = world.session()

    assert [world.task(session)["execution_id"] for _ in range(2)] == ["b", "a"]


def test_a_pause_before_a_retry_goes_on(world: World) -> None:
    _, task = world.held()
    world.fail(task["token"])
    world.clock.advance(0.4)
    world.restart(GREET)
    session = world.session()
    world.passes(0.5)
    assert world.runtime.poll(session) is None
    world.passes(0.1)

    assert world.task(session)["attempt"] == 2


def test_a_deadline_that_passed_meanwhile_counts(world: World) -> None:
    _, task = world.held()
    world.clock.advance(31)
    world.restart(GREET)
    world.passes(0)

    assert world.fail(task["token"])["reason"] == "stale attempt"
    assert world.events()[-3:-1] == ["StepAttemptFailed", "RetryScheduled"]


def test_a_cancelled_execution_goes_on_ending(world: World) -> None:
    _, task = world.held()
    world.runtime.cancel("e-1", "enough")
    world.restart(GREET)

    assert world.execution().status == "RUNNING"
    assert world.runtime.complete(task["token"], GOOD) == ACCEPTED
    assert world.execution().status == "CANCELLED"


def test_finished_executions_keep_their_results(world: World) -> None:
    _, task = world.held()
    world.runtime.complete(task["token"], GOOD)
    world.restart(GREET)

    assert world.execution().output == GOOD
    assert world.runtime.complete(task["token"], GOOD)["accepted"] is False
    assert world.runtime.start("Greet", {"name": "Ada"}, "e-1")["created"] is False


@pytest.mark.parametrize("text", ["", GREET.replace("30s", "40s")])
def test_a_running_execution_of_a_changed_workflow_ends(world: World, text: str) -> None:
    world.held()
    world.restart(text)

    assert world.execution().error == {
        "code": "DEFINITION_CHANGED",
        "message": "workflow Greet 1.0.0 is no longer declared as it was at the start: a version stays in CONTRACTS,"
        " beside newer ones, until its executions have ended. What its steps did stays done: look at it before anything"
        " is started again",
    }


@pytest.mark.parametrize("is_first", [True, False])
def test_a_running_execution_goes_on_beside_a_newer_version(world: World, is_first: bool) -> None:
    _, task = world.held()
    newer = GREET[GREET.index("workflow") :].replace('version "1.0.0"', 'version "1.10.0"')
    world.restart(f"{newer}{GREET}" if is_first else f"{GREET}{newer}")

    assert world.runtime.complete(task["token"], GOOD) == ACCEPTED
    assert world.execution().output == GOOD
    world.runtime.start("Greet", {"name": "Ada"}, "e-2")
    assert world.execution("e-2").version == "1.10.0"


def test_a_second_restart_reads_the_same(world: World) -> None:
    _, task = world.held()
    world.restart(GREET)
    world.restart(GREET)

    assert world.runtime.complete(task["token"], GOOD) == ACCEPTED

import pytest

from tests.contracts.texts import GREET
from tests.embedded.test_runtime import ACCEPTED, GOOD, STALE
from tests.embedded.world import World


def test_a_retry_is_a_new_attempt_after_its_pause(world: World) -> None:
    session, first = world.held()
    assert world.fail(first["token"]) == ACCEPTED

    world.passes(0.999)
    assert world.runtime.poll(session) is None
    world.passes(0.001)
    second = world.task(session)

    assert (second["attempt"], second["redelivery"], second["idempotency_key"]) == (2, False, first["idempotency_key"])
    assert second["token"] != first["token"]
    assert world.fail(first["token"]) == STALE
    assert world.runtime.complete(second["token"], GOOD) == ACCEPTED


def test_exponential_pauses_double() -> None:
    world = World(GREET.replace("fixed", "exponential").replace("attempts: 3", "attempts: 4"))
    session, task = world.held()
    for pause in (1, 2, 4):
        world.runtime.heartbeat(session)
        world.fail(task["token"])
        world.passes(pause - 0.001)
        assert world.runtime.poll(session) is None
        world.passes(0.001)
        task = world.task(session)

    assert task["attempt"] == 4


def test_the_last_attempt_fails_the_execution(world: World) -> None:
    session, task = world.held()
    for _ in range(2):
        world.fail(task["token"])
        world.passes(1)
        task = world.task(session)
    world.fail(task["token"])

    assert world.execution().status == "FAILED"
    assert world.execution().error == {"code": "BUSY", "message": "step `compose` failed: said"}
    assert world.events().count("StepAttemptFailed") == 3


@pytest.mark.parametrize(("code", "retryable"), [("INVALID_NAME", True), ("BUSY", False)])
def test_what_is_never_retried(world: World, code: str, retryable: bool) -> None:
    _, task = world.held()
    world.fail(task["token"], code, retryable=retryable)

    assert world.execution().error == {"code": code, "message": "step `compose` failed: said"}


def test_codes_are_compared_with_their_case(world: World) -> None:
    _, task = world.held()
    world.fail(task["token"], "invalid_name")

    assert world.execution().status == "RUNNING"


def test_details_of_a_failure_are_kept(world: World) -> None:
    _, task = world.held()
    world.runtime.fail(task["token"], {"code": "X", "message": "", "retryable": False, "details": {"n": 1}})

    assert world.execution().error == {"code": "X", "message": "step `compose` failed", "details": {"n": 1}}


def test_the_deadline_ends_the_attempt_and_is_told_once(world: World) -> None:
    session, first = world.held()
    for _ in range(6):
        world.runtime.heartbeat(session)
        world.passes(5)

    assert world.runtime.heartbeat(session)["cancel"] == [first["token"]]
    assert world.runtime.heartbeat(session)["cancel"] == []
    assert world.events()[-2:] == ["StepAttemptFailed", "RetryScheduled"]
    world.passes(1)
    assert world.task(session)["attempt"] == 2


def test_a_success_after_the_deadline_is_accepted(world: World) -> None:
    session, first = world.held()
    for _ in range(6):
        world.runtime.heartbeat(session)
        world.passes(5)

    assert world.runtime.complete(first["token"], GOOD) == ACCEPTED
    world.passes(1)
    assert world.runtime.poll(session) is None
    assert world.execution().status == "COMPLETED"


def test_a_late_success_while_the_retry_runs_ends_the_step(world: World) -> None:
    session, first = world.held()
    world.fail(first["token"])
    world.passes(1)
    second = world.task(session)

    assert world.runtime.complete(first["token"], GOOD) == ACCEPTED
    assert world.runtime.complete(second["token"], GOOD)["accepted"] is False


def test_the_wall_clock_may_jump(world: World) -> None:
    session, _ = world.held()
    world.clock.now += 7_200
    world.runtime.tick()

    assert world.runtime.heartbeat(session)["cancel"] == []


def test_unregistering_delivers_again_at_once(world: World) -> None:
    session, first = world.held()
    world.runtime.unregister(session)
    second = world.task(world.session())

    assert (second["attempt"], second["redelivery"], second["idempotency_key"]) == (1, True, "e-1/compose")
    assert second["token"] != first["token"]
    assert world.events()[2:] == ["StepDispatched", "StepAttemptUncertain", "StepScheduled", "StepDispatched"]
    assert world.fail(first["token"]) == STALE
    assert world.runtime.complete(first["token"], GOOD) == ACCEPTED


def test_a_silent_session_expires_and_its_attempt_is_delivered_again(world: World) -> None:
    session, _ = world.held()
    other = world.session("w-2")
    world.passes(5.9)
    world.runtime.heartbeat(other)
    world.passes(0.1)

    assert world.runtime.sessions.find(session) is None
    assert world.task(other)["redelivery"] is True


def test_a_redelivery_uses_no_retry(world: World) -> None:
    session, task = world.held()
    for _ in range(5):
        world.runtime.unregister(session)
        session = world.session()
        task = world.task(session)
    world.fail(task["token"])
    world.passes(1)

    assert world.task(session)["attempt"] == 2


def test_a_failure_while_the_redelivery_waits_is_stale(world: World) -> None:
    session, first = world.held()
    world.runtime.unregister(session)

    assert world.fail(first["token"]) == STALE
    assert world.task(world.session())["attempt"] == 1


def test_a_success_while_the_redelivery_waits_takes_it_out_of_the_line(world: World) -> None:
    session, first = world.held()
    world.runtime.unregister(session)

    assert world.runtime.complete(first["token"], GOOD) == ACCEPTED
    assert world.runtime.poll(world.session()) is None


def test_a_redelivery_gets_a_deadline_of_its_own(world: World) -> None:
    session, first = world.held()
    world.passes(5)
    world.runtime.unregister(session)
    second = world.task(world.session())

    assert second["deadline_ms"] == first["deadline_ms"] + 5_000

import logging
import threading

import pytest

from orbit_django.exceptions import ConfigurationError, NoAnswerError, UnknownSessionError
from orbit_django.models import OutboxMessage
from orbit_django.worker.allowance import Allowance
from orbit_django.worker.delivery import Deferred
from orbit_django.worker.loop import PollLoop
from orbit_django.worker.runner import StoppedError
from tests.worker.looping import EMPTY, MESSAGE, World
from tests.worker.words import assert_backs_off, refusal


@pytest.fixture
def world() -> World:
    return World()


def errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]


def test_a_session_is_opened_before_the_first_poll(world: World) -> None:
    world.loop.step()

    assert world.transport.names() == ["register", "poll"]
    assert world.transport.named("poll") == [("session-1", 20_000)]


def test_after_an_empty_answer_it_polls_again_at_once(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.transport.during["poll"] = lambda: world.clock.advance(20)

    assert [world.loop.step() for _ in range(3)] == [0.0, 0.0, 0.0]
    assert errors(caplog) == []


@pytest.mark.promise("D6")
def test_instant_empty_answers_back_off(world: World) -> None:
    waits = [world.loop.step() for _ in range(8)]
    world.transport.during["poll"] = lambda: world.clock.advance(20)

    assert_backs_off(waits)
    assert world.loop.step() == 0.0
    world.transport.during.clear()
    assert world.loop.step() < 0.25, "a long poll that worked begins anew"


def test_a_task_ends_the_backing_off(world: World) -> None:
    for _ in range(5):
        world.loop.step()

    assert world.receive(MESSAGE) == 0.0
    assert world.loop.step() < 0.25


@pytest.mark.promise("E7")
def test_a_poll_that_may_have_been_answered_puts_the_session_in_doubt(world: World) -> None:
    world.transport.script("poll", NoAnswerError("cut off"))
    assert 0.2 <= world.loop.step() < 0.25
    world.loop.step()

    assert world.polled() == ["session-1", "session-2"]
    assert world.transport.named("unregister") == [("session-1",)]


def test_a_poll_that_never_arrived_leaves_the_session_alone(world: World) -> None:
    world.transport.script("poll", *[NoAnswerError("refused", is_maybe_processed=False)] * 3)
    waits = [world.loop.step() for _ in range(4)]

    assert world.polled() == ["session-1"] * 4
    assert waits == sorted(waits)


@pytest.mark.promise("W3")
def test_an_unknown_session_is_replaced_and_the_poll_repeated(world: World) -> None:
    world.transport.script("poll", UnknownSessionError("gone"))
    assert world.loop.step() < 0.25
    world.loop.step()

    assert world.transport.names() == ["register", "poll", "register", "poll"]
    assert world.polled() == ["session-1", "session-2"]


@pytest.mark.parametrize(
    "error", [refusal(401, "UNAUTHENTICATED"), refusal(403, "FORBIDDEN"), refusal(422), ConfigurationError("token")]
)
def test_a_refused_poll_is_no_hot_loop_and_is_told_once(
    world: World, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    world.transport.script("poll", *[error] * 4)
    waits = [loop.step() for loop in (world.loop, PollLoop(world.rooms, 2)) * 2]

    assert min(waits) >= 5
    assert max(waits) <= 12
    assert len(errors(caplog)) == 1
    assert world.polled() == ["session-1"] * 4


def test_another_refusal_and_one_that_comes_back_are_told_again(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.transport.script("poll", refusal(401), refusal(403), EMPTY, refusal(403))
    for _ in range(4):
        world.loop.step()

    assert len(errors(caplog)) == 3


def test_a_poll_that_began_before_others_were_refused_does_not_make_them_news(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    def meanwhile() -> None:
        world.transport.during.clear()
        world.clock.advance(1)
        world.transport.script("poll", refusal(403))
        PollLoop(world.rooms, 2).step()

    world.transport.during["poll"] = meanwhile
    world.loop.step()
    world.transport.script("poll", refusal(403))
    world.loop.step()

    assert len(errors(caplog)) == 1


def test_a_task_is_executed_and_its_result_delivered(world: World) -> None:
    assert world.receive(MESSAGE) == 0.0

    (context,) = world.executed
    assert (context.token, context.worker_id, context.step_id) == ("token-1", "shop-1", "charge")
    assert world.delivered == [MESSAGE]
    assert len(world.held) == 0


def test_what_the_executor_drops_is_neither_reported_nor_held(world: World) -> None:
    world.receive(Deferred.DROPPED)

    assert (world.delivered, world.parked, len(world.held)) == ([], [], 0)


@pytest.mark.promise("E3")
def test_a_busy_key_is_parked_and_stays_held(world: World) -> None:
    assert world.receive(Deferred.PARKED) == 0.0
    ((context, ask, leave),) = world.parked
    assert (context, len(world.held)) == (world.executed[0], 1)
    world.answers = [Deferred.PARKED, MESSAGE]

    assert [ask(), ask()] == [False, True]
    assert world.delivered == [MESSAGE]
    leave()
    assert len(world.held) == 0


@pytest.mark.promise("E7")
@pytest.mark.parametrize("error", [ValueError("unexpected"), MemoryError(), KeyboardInterrupt()])
def test_an_unexpected_error_puts_the_session_in_doubt_and_holds_nothing(world: World, error: BaseException) -> None:
    with pytest.raises(type(error)):
        world.receive(error)

    assert len(world.held) == 0
    assert world.delivered == []
    world.loop.step()
    assert world.polled() == ["session-1", "session-2"], "only a new session brings the task back"
    assert world.transport.named("unregister") == [("session-1",)]


@pytest.mark.promise("E7")
def test_an_unexpected_error_while_parked_puts_the_session_in_doubt(world: World) -> None:
    world.receive(Deferred.PARKED)
    ((_, ask, leave),) = world.parked
    world.answers = [ValueError("unexpected")]
    with pytest.raises(ValueError, match="unexpected"):
        ask()
    leave()
    world.loop.step()

    assert world.polled() == ["session-1", "session-2"]


def test_a_committed_result_is_no_reason_for_doubt(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(message: OutboxMessage) -> None:
        raise ValueError("unexpected")

    monkeypatch.setattr(world, "report", fail)
    with pytest.raises(ValueError, match="unexpected"):
        world.receive(MESSAGE)
    world.loop.step()

    assert len(world.held) == 0
    assert world.polled() == ["session-1", "session-1"]


@pytest.mark.promise("W1")
def test_a_handler_has_a_slot_while_it_runs_and_only_then(world: World) -> None:
    free: list[bool] = []

    def look() -> OutboxMessage:
        free.append(world.rooms.slots.acquire(blocking=False))
        return MESSAGE

    world.receive(look)
    with pytest.raises(ValueError, match="unexpected"):
        world.receive(ValueError("unexpected"))

    assert free == [False]
    assert world.rooms.slots.acquire(blocking=False)


@pytest.mark.promise("E7")
def test_what_arrives_after_the_end_is_left_to_the_session_that_is_closed(world: World) -> None:
    world.held.close_when_empty(0)
    world.receive(MESSAGE)

    assert world.executed == []


@pytest.mark.promise("W5")
def test_a_worker_that_stops_polls_no_more(world: World) -> None:
    world.loop.step()
    world.stop.set()
    with pytest.raises(StoppedError):
        world.loop.step()

    assert len(world.polled()) == 1


@pytest.mark.promise("W7")
def test_nothing_is_polled_while_the_database_is_away(world: World) -> None:
    world.gate.close(OSError("down"))
    assert world.loop.step() == 0.0
    assert world.transport.calls == []
    opening = threading.Timer(0.05, world.gate.open)
    opening.start()
    world.loop.step()

    assert world.polled() == ["session-1"]
    opening.join()


@pytest.mark.promise("W1")
def test_a_poll_that_brings_nothing_gives_its_reservation_back(world: World) -> None:
    world.rooms.allowance = Allowance(1)
    world.transport.script("poll", EMPTY, NoAnswerError("down"), UnknownSessionError("gone"))
    for _ in range(3):
        world.loop.step()

    assert len(world.polled()) == 3
    assert world.rooms.allowance.reserve(0)


@pytest.mark.promise("W1")
def test_a_task_that_came_uses_its_reservation_up(world: World) -> None:
    world.rooms.allowance = Allowance(2)
    world.receive(MESSAGE)
    assert [world.rooms.allowance.reserve(0) for _ in range(2)] == [True, False]
    world.rooms.allowance.give_back()
    world.receive(MESSAGE)
    with pytest.raises(StoppedError):
        world.loop.step()
    assert len(world.polled()) == 2


@pytest.mark.promise("W1")
def test_a_loop_knows_since_when_there_is_nothing(world: World) -> None:
    began = world.clock.monotonic()
    assert not world.loop.found_nothing_since(began)
    world.transport.during["poll"] = lambda: world.clock.advance(5)
    world.loop.step()

    assert world.loop.found_nothing_since(began)
    assert not world.loop.found_nothing_since(began + 1), "it had begun before"
    assert world.loop.answered_at == began + 5

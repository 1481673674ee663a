import logging
import threading

import pytest

from orbit_django.clock import FixedClock
from orbit_django.exceptions import NoAnswerError, RefusedError, UnknownSessionError
from orbit_django.protocol import Session
from orbit_django.worker.held import Held
from orbit_django.worker.runner import StoppedError
from orbit_django.worker.session import SessionHolder
from tests.processes import wait_for
from tests.worker.words import REGISTRATION, HookedTransport, NoWait, TickingClock, assert_backs_off, context, refusal


class World:
    """A holder and everything around it."""

    def __init__(self, clock: FixedClock | None = None) -> None:
        self.transport = HookedTransport()
        self.clock = clock or FixedClock()
        self.held = Held()
        self.stop = NoWait()
        self.refusals: list[RefusedError] = []
        self.holder = SessionHolder(
            self.transport,
            REGISTRATION,
            held=self.held,
            clock=self.clock,
            stop=self.stop,
            on_refused=self.refusals.append,
        )

    def opened(self) -> str:
        return self.holder.current().session_id


@pytest.fixture
def world() -> World:
    return World()


def test_a_session_is_opened_once_and_kept(world: World) -> None:
    assert world.holder.peek() is None
    assert [world.opened(), world.opened()] == ["session-1", "session-1"]
    assert world.transport.named("register") == [(REGISTRATION,)]


@pytest.mark.promise("W3")
def test_many_threads_that_lost_one_session_register_once(world: World) -> None:
    world.opened()
    together, release, found = threading.Barrier(16), threading.Event(), []
    world.transport.during["register"] = lambda: release.wait(10)

    def lose() -> None:
        together.wait(10)
        world.holder.lost("session-1")
        found.append(world.opened())

    threads = [threading.Thread(target=lose) for _ in range(16)]
    for thread in threads:
        thread.start()
    wait_for(lambda: len(world.transport.named("register")) > 1)
    release.set()
    for thread in threads:
        thread.join(10)

    assert found == ["session-2"] * 16
    assert world.transport.names() == ["register", "register"]


@pytest.mark.promise("W3")
def test_who_learns_late_of_a_lost_session_leaves_the_new_one_alone(world: World) -> None:
    world.opened()
    world.holder.lost("session-1")
    world.opened()
    world.holder.lost("session-1")

    assert world.opened() == "session-2"


@pytest.mark.promise("E7")
def test_a_session_in_doubt_is_replaced_at_once_when_nothing_is_held(world: World) -> None:
    world.opened()
    world.holder.doubt("session-1")

    assert world.holder.peek().session_id == "session-1", "heartbeats go on with it until then"
    assert world.opened() == "session-2"
    assert world.transport.names() == ["register", "register", "unregister"], "first the new one, then the old"
    assert world.transport.named("unregister") == [("session-1",)]


@pytest.mark.promise("E7")
def test_a_session_in_doubt_waits_one_session_timeout_for_what_is_held() -> None:
    world = World(TickingClock(9.0))
    world.held.add(context())
    world.opened()
    world.holder.doubt("session-1")
    doubted_at = world.clock.ticks

    assert world.opened() == "session-2"
    assert 30 <= world.clock.ticks - doubted_at < 45
    assert world.transport.named("unregister") == [("session-1",)]


@pytest.mark.promise("E7")
def test_a_session_in_doubt_is_replaced_as_soon_as_nothing_is_held_any_more() -> None:
    world = World(TickingClock(0.1))
    held = context()
    world.held.add(held)
    world.opened()
    world.holder.doubt("session-1")
    leaving = threading.Timer(0.05, world.held.remove, [held])
    leaving.start()

    assert world.opened() == "session-2"
    assert len(world.held) == 0
    leaving.join()


def test_a_second_doubt_does_not_put_the_replacement_off() -> None:
    world = World(TickingClock(9.0))
    world.held.add(context())
    world.opened()
    world.holder.doubt("session-1")
    doubted_at = world.clock.ticks
    world.clock.advance(20)
    world.holder.doubt("session-1")
    world.opened()

    assert world.clock.ticks - doubted_at < 45


def test_a_doubt_about_a_session_that_is_gone_means_nothing(world: World) -> None:
    world.opened()
    world.holder.lost("session-1")
    world.opened()
    world.holder.doubt("session-1")

    assert world.opened() == "session-2"


def test_a_doubt_ends_with_its_session(world: World) -> None:
    world.opened()
    world.holder.doubt("session-1")
    world.holder.lost("session-1")

    assert [world.opened(), world.opened()] == ["session-2", "session-2"]
    assert world.transport.named("unregister") == []


@pytest.mark.promise("W8")
@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
def test_a_refusal_at_the_start_is_final(world: World, status: int) -> None:
    world.transport.script("register", refusal(status))
    with pytest.raises(StoppedError):
        world.opened()

    assert [error.status for error in world.refusals] == [status]
    assert len(world.transport.named("register")) == 1
    assert world.stop.waits == []


@pytest.mark.promise("W8")
@pytest.mark.parametrize("status", [408, 425, 429])
def test_a_refusal_that_time_heals_is_tried_again(world: World, status: int) -> None:
    world.transport.script("register", refusal(status), refusal(status))

    assert world.opened() == "session-3"
    assert world.refusals == []
    assert [round(wait, 1) for wait in world.stop.waits] == pytest.approx([0.2, 0.4], abs=0.11)


def test_a_refusal_in_mid_life_is_logged_and_tried_again_slowly(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.opened()
    world.holder.lost("session-1")
    world.holder.credential_source = "WORKER_TOKEN_FILE"
    world.transport.script("register", refusal(401, "UNAUTHENTICATED"), refusal(403, "FORBIDDEN"))

    assert world.opened() == "session-4"
    assert world.refusals == []
    assert world.stop.waits == [5.0, 5.0]
    logged = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert [record.error.split()[0] for record in logged] == ["401", "403"]
    assert [vars(record).get("advice") for record in logged] == ["look at WORKER_TOKEN_FILE", None]


def test_a_runtime_that_is_away_is_asked_with_growing_waits(world: World) -> None:
    world.transport.script("register", *[NoAnswerError("down") for _ in range(8)])
    world.opened()

    assert len(world.stop.waits) == 8
    assert_backs_off(world.stop.waits)


@pytest.mark.parametrize(("is_first", "end"), [(True, "the runtime is there"), (False, "the runtime is back")])
def test_a_runtime_that_is_away_is_told_of_now_and_then_and_once_it_answers(
    world: World, caplog: pytest.LogCaptureFixture, is_first: bool, end: str
) -> None:
    if not is_first:
        world.holder.lost(world.opened())
        caplog.clear()
    world.transport.script("register", *[NoAnswerError("down") for _ in range(99)])
    world.opened()

    told = [(record.message, record.failures) for record in caplog.records if record.levelno == logging.WARNING]
    away = "the runtime cannot be reached; the worker has no session and goes on trying"
    assert told == [(away, 1), (away, 10), (end, 99)]


def test_a_runtime_that_was_there_is_not_called_back(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.opened()
    assert not [text for text in caplog.messages if text.startswith("the runtime is ")]


def test_a_stop_ends_the_wait_for_a_runtime_that_is_away(world: World) -> None:
    world.transport.script("register", *[NoAnswerError("down") for _ in range(8)])
    world.stop.then = lambda: len(world.stop.waits) == 2 and world.stop.set()
    with pytest.raises(StoppedError):
        world.opened()

    assert len(world.transport.named("register")) == 2


def test_an_unexpected_error_leaves_the_way_open_for_others(world: World) -> None:
    world.transport.script("register", ValueError("a fault of a binding"))
    with pytest.raises(ValueError, match="binding"):
        world.opened()

    assert world.opened() == "session-2"


def test_warnings_of_the_runtime_are_logged(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.transport.script("register", Session("s", 5_000, 30_000, ("not used", "too old")))
    world.opened()

    logged = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert [record.warning for record in logged] == ["not used", "too old"]


def test_closing_gives_the_session_back_once(world: World) -> None:
    world.opened()
    world.holder.close()
    world.holder.close()

    assert world.transport.named("unregister") == [("session-1",)]
    assert world.holder.peek() is None
    with pytest.raises(StoppedError):
        world.opened()


@pytest.mark.parametrize("error", [NoAnswerError("down"), UnknownSessionError("gone"), refusal(403)])
def test_a_session_that_cannot_be_given_back_is_left_to_expire(world: World, error: Exception) -> None:
    world.opened()
    world.transport.script("unregister", error)
    world.holder.close()

    assert world.transport.names() == ["register", "unregister"], "nothing is opened only to be closed"


def test_a_session_that_comes_after_the_end_is_given_back(world: World) -> None:
    world.transport.during["register"] = world.holder.close
    with pytest.raises(StoppedError):
        world.opened()

    assert world.transport.named("unregister") == [("session-1",)]

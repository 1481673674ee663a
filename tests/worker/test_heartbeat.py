import logging
import threading

import pytest

from orbit_django.clock import FixedClock
from orbit_django.context import CancelReason
from orbit_django.exceptions import NoAnswerError, UnknownSessionError
from orbit_django.protocol import Session
from orbit_django.worker.heartbeat import Heartbeat
from orbit_django.worker.held import Held
from orbit_django.worker.session import SessionHolder
from orbit_django.worker.vitals import Vitals
from tests.worker.words import REGISTRATION, HookedTransport, context, refusal


class World:
    """A heartbeat and everything around it."""

    def __init__(self) -> None:
        self.transport = HookedTransport()
        self.clock = FixedClock()
        self.held = Held()
        self.stop = threading.Event()
        self.holder = SessionHolder(
            self.transport, REGISTRATION, held=self.held, clock=self.clock, stop=self.stop, on_refused=print
        )
        self.vitals = Vitals(self.clock)
        self.heartbeat = Heartbeat(self.transport, self.holder, self.held, self.clock, vitals=self.vitals)

    def live(self, seconds: float) -> list[float]:
        """Let time pass in the steps that the loop asks for; return when it beat, in seconds from now."""
        began, beats = self.clock.ticks, []
        while self.clock.ticks - began < seconds:
            before = len(self.transport.limits)
            wait = self.heartbeat.step()
            if len(self.transport.limits) > before:
                beats.append(self.clock.ticks - began)
            self.clock.advance(wait)
        return beats

    def beat(self) -> None:
        """Let the time of one beat come."""
        self.heartbeat.step()
        self.clock.advance(5)
        self.heartbeat.step()


@pytest.fixture
def world() -> World:
    world = World()
    world.holder.current()
    return world


def warnings(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [record for record in caplog.records if record.levelno == logging.WARNING]


def test_the_pace_is_the_one_that_the_runtime_asked_for(world: World) -> None:
    assert world.live(60.2) == pytest.approx([5.0 * number for number in range(1, 13)], abs=0.01)
    assert world.transport.named("heartbeat") == [("session-1",)] * 12


def test_a_new_session_has_its_own_pace_from_its_beginning(world: World) -> None:
    world.live(7)
    world.holder.lost("session-1")
    world.transport.script("register", Session("quick", 500, 3_000))
    world.holder.current()

    assert world.live(2.1) == pytest.approx([0.5, 1.0, 1.5, 2.0], abs=0.01)
    assert world.transport.named("heartbeat")[-4:] == [("quick",)] * 4


def test_a_new_session_is_noticed_within_its_first_interval(world: World) -> None:
    assert world.heartbeat.step() <= 0.25


def test_late_beats_do_not_pile_up(world: World) -> None:
    world.live(1)
    world.clock.advance(60)

    assert len(world.live(4.9)) <= 2, "one that is due, and the next one"


def test_every_beat_has_a_limit_well_below_the_session_timeout(world: World) -> None:
    world.beat()
    world.holder.lost("session-1")
    world.transport.script("register", Session("short", 500, 3_000))
    world.holder.current()
    world.live(0.6)

    assert world.transport.limits == [10.0, 1.0]


def test_without_a_session_nothing_beats_and_nothing_is_opened() -> None:
    world = World()
    assert 0 < world.heartbeat.step() <= 1

    assert world.transport.calls == []


@pytest.mark.promise("W3")
def test_with_every_loop_in_a_handler_the_heartbeat_registers_again(world: World) -> None:
    world.held.add(context())
    world.transport.script("heartbeat", UnknownSessionError("gone"))
    world.beat()
    world.heartbeat.step()

    assert world.holder.peek().session_id == "session-2"
    world.live(5.1)
    assert world.transport.named("heartbeat") == [("session-1",), ("session-2",)]


@pytest.mark.promise("W3")
def test_with_every_loop_in_a_poll_the_heartbeat_registers_again(world: World) -> None:
    world.transport.script("heartbeat", UnknownSessionError("gone"))
    world.beat()
    world.heartbeat.step()

    assert world.holder.peek().session_id == "session-2"
    assert len(world.transport.named("register")) == 2


def test_a_worker_that_stops_opens_no_session_for_nothing(world: World) -> None:
    world.transport.script("heartbeat", UnknownSessionError("gone"))
    world.beat()
    world.stop.set()
    assert world.heartbeat.step() > 0

    assert len(world.transport.named("register")) == 1


@pytest.mark.parametrize(
    ("interval_ms", "timeout_ms", "seconds"),
    [(1, 30_000, 0.25), (-5, 30_000, 0.25), (2**63 - 1, 30_000, 10.0), (30_000, 3_000, 1.0), (900, 1_000, 0.9),
     (500, -1, 0.5), (2**63 - 1, 2**63 - 1, None)],
)  # fmt: skip
def test_a_pace_that_makes_no_sense_neither_floods_the_runtime_nor_loses_the_session(
    interval_ms: int, timeout_ms: int, seconds: float | None
) -> None:
    world = World()
    world.transport.script("register", Session("odd", interval_ms, timeout_ms))
    world.holder.current()

    assert world.live(12)[:1] == ([] if seconds is None else [pytest.approx(seconds, abs=0.01)])
    assert len(world.transport.limits) <= 12 / 0.25


@pytest.mark.promise("W2", "W3")
def test_a_session_lost_while_handlers_drain_is_opened_again(world: World) -> None:
    world.held.add(context())
    world.holder.lost("session-1")
    world.stop.set()
    world.heartbeat.step()

    assert len(world.transport.named("register")) == 2


def test_a_session_that_was_given_back_is_not_opened_again(world: World) -> None:
    world.held.add(context())
    world.holder.close()

    assert world.heartbeat.step() > 0.5
    assert len(world.transport.named("register")) == 1


@pytest.mark.parametrize("error", [NoAnswerError("down"), refusal(403), refusal(400)])
def test_errors_keep_the_session_and_the_pace(world: World, error: Exception) -> None:
    world.transport.script("heartbeat", *[error] * 3)

    assert len(world.live(25.1)) == 5
    assert world.holder.peek().session_id == "session-1"


def test_failures_are_logged_at_the_first_and_tenth_time(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.transport.script("heartbeat", *[NoAnswerError("down")] * 12, (), NoAnswerError("again"))
    world.live(14 * 5.0 + 0.1)

    assert [record.failures for record in warnings(caplog)] == [1, 10, 1]


@pytest.mark.promise("W4")
def test_the_cancel_list_reaches_the_handlers_that_are_named(world: World) -> None:
    named, other = context("token-1"), context("token-2")
    world.held.add(named)
    world.held.add(other)
    world.transport.script("heartbeat", ("nobody's", "token-1"))
    world.beat()

    assert named.is_cancelled
    assert named.cancelled.reason == CancelReason.RUNTIME
    assert not other.is_cancelled


def test_the_time_of_the_last_answered_beat_is_known(world: World) -> None:
    assert world.vitals.beat_at is None
    world.transport.script("heartbeat", (), NoAnswerError("down"))
    world.live(10.1)

    assert world.vitals.beat_at == pytest.approx(1_005, abs=0.01)


@pytest.mark.promise("E7")
def test_a_session_in_doubt_is_replaced_though_every_loop_is_busy() -> None:
    world = World()
    first = world.holder.current()
    world.held.add(context())
    world.holder.doubt(first.session_id)
    world.heartbeat.step()
    assert world.holder.peek() is first
    world.clock.advance(first.session_timeout_ms / 1000)
    world.heartbeat.step()
    assert world.holder.peek() is not first


@pytest.mark.promise("W2")
def test_a_session_in_doubt_goes_on_beating_while_handlers_drain() -> None:
    world = World()
    first = world.holder.current()
    world.held.add(context())
    world.holder.doubt(first.session_id)
    world.stop.set()
    assert len(world.live(first.session_timeout_ms / 1000 * 2)) > 5


def test_a_handler_that_does_not_heed_its_cancellation_is_named_once(world: World, caplog) -> None:
    deaf = context("token-1")
    world.held.add(deaf)
    world.transport.script("heartbeat", ("token-1",))
    world.live(29)
    assert warnings(caplog) == []

    world.live(40)
    (told,) = warnings(caplog)
    assert (told.message, told.reason) == ("a handler goes on although it was cancelled", "runtime")
    assert told.execution == deaf.execution_id

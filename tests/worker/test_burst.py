from typing import Any

import pytest
from django.db import OperationalError

from orbit_django.clock import FixedClock
from orbit_django.context import TaskContext
from orbit_django.worker import housekeeping
from orbit_django.worker.burst import Burst
from orbit_django.worker.held import Held
from tests.worker.words import context

pytestmark = pytest.mark.promise("W1")


class Polls:
    """A poll loop, as far as a burst looks at it."""

    def __init__(self) -> None:
        self.answered_at = self.began = 0.0

    def found_nothing_since(self, moment: float) -> bool:
        return self.began >= moment


class World:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(housekeeping, "before_task", lambda: None)
        self.clock = FixedClock()
        self.held = Held()
        self.loops = [Polls(), Polls()]
        self.owed: Any = False
        self.burst = Burst(self.loops, self.held, self._is_owed, self.clock)

    def _is_owed(self) -> bool:
        if isinstance(self.owed, Exception):
            raise self.owed
        return bool(self.owed)

    def look(self, *numbers: int) -> int | None:
        """Let these loops poll in vain for half a second, and look."""
        for number in numbers:
            self.loops[number].began = self.clock.ticks
            self.loops[number].answered_at = self.clock.ticks
        self.clock.advance(0.5)
        self.burst.step()
        return self.burst.code

    def work(self) -> TaskContext:
        held = context(clock=self.clock)
        self.held.add(held)
        return held


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


def test_two_rounds_of_empty_answers_with_nothing_owed_are_the_end(world: World) -> None:
    assert [world.look(0, 1), world.look(0, 1)] == [None, 0]


def test_every_loop_must_have_found_nothing(world: World) -> None:
    assert {world.look(0) for _ in range(10)} == {None}
    world.look(0, 1)
    assert {world.look(0) for _ in range(10)} == {None}
    assert world.look(1) == 0


def test_a_held_delivery_is_work(world: World) -> None:
    world.look(0, 1)
    held = world.work()
    assert {world.look(0, 1) for _ in range(10)} == {None}
    world.held.remove(held)
    assert [world.look(0, 1), world.look(0, 1), world.look(0, 1)] == [None, None, 0], "its report may lead to more"


def test_a_delivery_that_came_and_went_between_two_looks_is_work(world: World) -> None:
    world.look(0, 1)
    world.held.remove(world.work())
    assert [world.look(0, 1), world.look(0, 1), world.look(0, 1)] == [None, None, 0]


def test_what_is_owed_is_waited_for_and_may_lead_to_more(world: World) -> None:
    world.owed = True
    assert {world.look(0, 1) for _ in range(20)} == {None}
    world.owed = False
    assert [world.look(0, 1), world.look(0, 1)] == [None, 0]


def test_what_finds_no_answer_for_half_a_minute_is_given_up(world: World) -> None:
    world.owed = True
    codes = [world.look(0, 1) for _ in range(62)]
    assert codes.index(1) * 0.5 == pytest.approx(30)


def test_half_a_minute_without_an_answer_to_a_poll_is_an_absence(world: World) -> None:
    codes = [world.look() for _ in range(62)]
    assert (codes.index(1) + 1) * 0.5 == pytest.approx(30)


def test_a_long_handler_is_no_absence(world: World) -> None:
    held = [world.work(), context("token-2", clock=world.clock)]
    world.held.add(held[1])
    assert {world.look() for _ in range(200)} == {None}
    for each in held:
        world.held.remove(each)
    codes = [world.look() for _ in range(61)]
    assert codes[0] is None
    assert codes[-1] == 1, "half a minute after the handlers have ended"


def test_an_answer_begins_the_half_minute_anew(world: World) -> None:
    assert {world.look(*((0,) if number % 50 == 0 else ())) for number in range(200)} == {None}


def test_a_database_that_cannot_say_what_is_owed_is_no_end(world: World) -> None:
    world.owed = OperationalError("gone")
    assert {world.look(0, 1) for _ in range(10)} == {None}
    world.owed = False
    assert [world.look(0, 1), world.look(0, 1)] == [None, 0]

import logging
from collections.abc import Callable

import pytest
from django.db import InterfaceError, OperationalError
from django.db.utils import DatabaseError, IntegrityError

from orbit_django.clock import FixedClock
from orbit_django.exceptions import AbandonedError
from orbit_django.worker import patience as room
from orbit_django.worker.gate import DatabaseGate
from orbit_django.worker.patience import Patience
from tests.worker.words import NoWait, context

LOCKED = OperationalError("locked")
AWAY = InterfaceError("away")


class Judge:
    """A dialect that takes one error for a lock, and another for a lost connection."""

    def is_transient(self, error: BaseException) -> bool:
        return error is LOCKED

    def is_connection_lost(self, error: BaseException) -> bool:
        return error is AWAY


class World:
    """Patience and everything around it; the halt event counts the waits."""

    def __init__(self) -> None:
        self.clock = FixedClock()
        self.gate = DatabaseGate()
        self.stop = NoWait()
        self.halt = NoWait()
        self.patience = Patience(self.clock, self.gate, stop=self.stop, halt=self.halt)
        self.tries = 0

    def repeat(self, *errors: BaseException, has_run: bool = False, timeout_ms: int | None = None) -> str:
        """Repeat a step that fails so and then succeeds."""
        left = list(errors)
        seen = context(clock=self.clock, timeout_ms=timeout_ms)

        def step() -> str:
            self.tries += 1
            if left:
                raise left.pop(0)
            return "done"

        return self.patience.repeat(seen, step, using="default", has_run=has_run)


@pytest.fixture
def discarded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    found: list[str] = []
    monkeypatch.setattr(room, "dialect_of", lambda using: Judge())
    monkeypatch.setattr(room.housekeeping, "discard", found.append)
    return found


@pytest.fixture
def world(discarded: list[str]) -> World:
    return World()


def test_a_passing_error_is_waited_out_with_growing_pauses(world: World) -> None:
    assert world.repeat(*[LOCKED] * 8) == "done"
    bases = (0.05, 0.1, 0.2, 0.4, 0.8, 0.9, 0.9, 0.9)  # never more than a second
    assert all(low <= wait <= min(low * 1.2, 1) for low, wait in zip(bases, world.halt.waits, strict=True))


@pytest.mark.parametrize("error", [IntegrityError("twice"), DatabaseError("?"), OperationalError("full"), ValueError()])
def test_an_error_that_will_not_pass_leaves_at_once(world: World, error: Exception) -> None:
    with pytest.raises(type(error)) as raised:
        world.repeat(error)

    assert raised.value is error
    assert world.halt.waits == []


@pytest.mark.promise("W7")
def test_a_lost_connection_is_given_up_and_a_second_one_closes_the_gate(world: World, discarded: list[str]) -> None:
    seen: list[bool] = []
    world.halt.then = lambda: seen.append(world.gate.is_open)

    assert world.repeat(AWAY, AWAY, AWAY) == "done"
    assert discarded == ["default"] * 3
    assert seen == [True, False, False], "one drop may be only the connection"
    assert world.gate.is_open, "an answer opens it again"


def test_a_lock_keeps_the_connection_and_the_gate(world: World, discarded: list[str]) -> None:
    world.halt.then = lambda: world.gate.is_open or pytest.fail("closed for a lock")
    world.repeat(LOCKED, LOCKED, LOCKED)

    assert discarded == []


def after(seconds: float, world: World) -> Callable[[], None]:
    return lambda: world.clock.advance(seconds)


def test_the_deadline_ends_the_patience_when_nothing_has_run(world: World) -> None:
    world.halt.then = after(0.4, world)
    with pytest.raises(AbandonedError):
        world.repeat(*[AWAY] * 9, timeout_ms=1_000)

    assert world.tries == 4


def test_the_deadline_does_not_cost_work_that_was_done(world: World) -> None:
    world.halt.then = after(0.4, world)

    assert world.repeat(*[AWAY] * 9, timeout_ms=1_000, has_run=True) == "done"


@pytest.mark.promise("W5")
def test_a_hasty_end_ends_it_at_once(world: World) -> None:
    world.halt.set()
    with pytest.raises(AbandonedError):
        world.repeat(AWAY, has_run=True)

    assert world.tries == 1


def test_an_orderly_end_leaves_it_five_seconds(world: World) -> None:
    world.halt.then = after(1.0, world)
    world.stop.set()
    with pytest.raises(AbandonedError):
        world.repeat(*[AWAY] * 20, has_run=True)

    assert 5 <= len(world.halt.waits) <= 8


def test_the_log_is_not_flooded(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.repeat(*[LOCKED] * 60)

    assert [record.failures for record in caplog.records if record.levelno == logging.WARNING] == [1, 10]

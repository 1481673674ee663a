import logging
import threading
from collections.abc import Callable

import pytest

from orbit_django.clock import FixedClock
from orbit_django.context import CancelReason, TaskContext
from orbit_django.worker.parking import Parking
from tests.processes import wait_for
from tests.worker.words import NoWait, TickingClock, context

NO_PLACE = 0  # so that the caller's thread waits, and no other is made


class Delivery:
    """A parked delivery that is dealt with when it was asked for so many times."""

    def __init__(self, asks: int, seen: TaskContext | None = None) -> None:
        self.context = seen or context()
        self.asks = asks
        self.threads: list[threading.Thread] = []
        self.has_left = threading.Event()

    def ask(self) -> bool:
        self.threads.append(threading.current_thread())
        return len(self.threads) >= self.asks

    def park(self, parking: Parking, ask: Callable[[], bool] | None = None) -> None:
        parking.park(self.context, ask or self.ask, self.has_left.set)


def test_a_busy_key_is_asked_for_until_it_is_dealt_with() -> None:
    delivery = Delivery(asks=8)
    stop = NoWait(lambda: delivery.has_left.is_set() and pytest.fail("left while it was waiting"))
    delivery.park(Parking(NO_PLACE, FixedClock(), stop))

    assert len(delivery.threads) == 8
    assert delivery.has_left.is_set()
    assert stop.waits == [0.01, 0.02, 0.04, 0.08, 0.16, 0.25, 0.25, 0.25]


def test_a_long_wait_asks_less_often_and_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    delivery, stop = Delivery(asks=12), NoWait()
    delivery.park(Parking(NO_PLACE, TickingClock(4.0), stop))

    assert stop.waits[-1] == 1.0
    assert max(stop.waits[:7]) <= 0.25
    (record,) = caplog.records
    assert "another run of its key" in record.getMessage()
    assert record.attempt == 1


@pytest.mark.promise("E7")
def test_a_stop_asks_once_more_and_lets_go() -> None:
    delivery, stop = Delivery(asks=9), NoWait()
    stop.then = lambda: len(stop.waits) == 3 and stop.set()
    delivery.park(Parking(NO_PLACE, FixedClock(), stop))

    assert len(delivery.threads) == 3
    assert delivery.has_left.is_set()


@pytest.mark.promise("E7")
def test_a_stop_asks_for_as_long_as_something_else_runs_here_and_once_after_it() -> None:
    """What is in the way may be a neighbour in this process, whose end the worker waits for anyway."""
    delivery, stop, running = Delivery(asks=9), NoWait(), [3, 2, 2, 1]
    stop.set()
    delivery.park(Parking(NO_PLACE, FixedClock(), stop, lambda: running.pop(0)))

    assert len(delivery.threads) == 4
    assert not running
    assert delivery.has_left.is_set()


def test_deliveries_that_wait_do_not_wait_for_each_other_when_the_worker_stops() -> None:
    stop, first, second = threading.Event(), Delivery(asks=99), Delivery(asks=99)
    parking = Parking(2, FixedClock(), stop, lambda: 2 - first.has_left.is_set() - second.has_left.is_set())
    first.park(parking)
    second.park(parking)
    stop.set()

    assert first.has_left.wait(10)
    assert second.has_left.wait(10)
    assert max(len(first.threads), len(second.threads)) < 99
    wait_for(lambda: not [thread for thread in threading.enumerate() if thread.name == "orbit-parked"])


@pytest.mark.promise("W5")
def test_what_is_cancelled_in_a_worker_that_stops_is_let_go_without_asking() -> None:
    delivery, stop = Delivery(asks=9), NoWait()
    stop.set()
    delivery.context.cancelled.cancel(CancelReason.SHUTDOWN)
    delivery.park(Parking(NO_PLACE, FixedClock(), stop, lambda: 2))

    assert not delivery.threads
    assert delivery.has_left.is_set()


def test_the_deadline_lets_go() -> None:
    clock = FixedClock()
    delivery = Delivery(asks=9, seen=context(clock=clock, timeout_ms=1_000))
    stop = NoWait(lambda: clock.advance(0.4))
    delivery.park(Parking(NO_PLACE, clock, stop))

    assert len(delivery.threads) == 2
    assert delivery.has_left.is_set()


def test_an_error_lets_go_and_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    def fail() -> bool:
        raise ValueError("unexpected")

    delivery = Delivery(asks=1)
    delivery.park(Parking(NO_PLACE, FixedClock(), NoWait()), ask=fail)

    assert delivery.has_left.is_set()
    assert [(record.levelno, record.exc_info[0]) for record in caplog.records] == [(logging.ERROR, ValueError)]


@pytest.mark.promise("E3")
def test_a_place_keeps_the_caller_free_and_there_are_only_so_many() -> None:
    parking, stop = Parking(1, FixedClock(), threading.Event()), threading.Event()
    first, second, third = Delivery(asks=1), Delivery(asks=2), Delivery(asks=1)
    first.park(parking, ask=lambda: first.ask() and stop.is_set())
    second.park(parking)

    assert not first.has_left.is_set(), "it waits elsewhere"
    assert second.has_left.is_set()
    assert set(second.threads) == {threading.current_thread()}
    stop.set()
    assert first.has_left.wait(10)
    wait_for(lambda: not [thread for thread in threading.enumerate() if thread.name == "orbit-parked"])
    third.park(parking)
    assert third.has_left.wait(10)
    assert threading.current_thread() not in third.threads
    wait_for(lambda: not [thread for thread in threading.enumerate() if thread.name == "orbit-parked"])

import threading

import pytest

from orbit_django.context import CancelReason
from orbit_django.worker.held import Held
from tests.worker.words import context


def test_what_is_held_is_counted() -> None:
    held, first, second = Held(), context("token-1"), context("token-2")
    assert held.add(first)
    assert held.add(second)
    held.remove(first)
    held.remove(first)

    assert len(held) == 1


def test_what_has_a_report_does_not_run_any_more() -> None:
    held, first, second = Held(), context("token-1"), context("token-2")
    held.add(first)
    held.add(second)
    held.reporting(first)

    assert (held.running(), len(held)) == (1, 2)


def test_a_cancellation_reaches_only_whom_it_names() -> None:
    held, first, second = Held(), context("token-1"), context("token-2")
    held.add(first)
    held.add(second)
    held.cancel(["token-2", "token-9"])

    assert (first.is_cancelled, second.cancelled.reason) == (False, CancelReason.RUNTIME)


def test_who_is_not_held_any_more_is_not_cancelled() -> None:
    held, gone = Held(), context()
    held.add(gone)
    held.remove(gone)
    held.cancel([gone.token])
    held.cancel_all()

    assert not gone.is_cancelled


@pytest.mark.promise("W5")
def test_a_hasty_end_cancels_everything_and_says_why() -> None:
    held, contexts = Held(), [context("token-1"), context("token-2")]
    for each in contexts:
        held.add(each)
    held.cancel_all()

    assert [each.cancelled.reason for each in contexts] == [CancelReason.SHUTDOWN] * 2


def test_the_first_reason_stays() -> None:
    held, cancelled = Held(), context()
    held.add(cancelled)
    held.cancel([cancelled.token])
    held.cancel_all()

    assert cancelled.cancelled.reason == CancelReason.RUNTIME


@pytest.mark.promise("E7")
def test_once_closed_nothing_is_taken() -> None:
    held = Held()
    assert held.close_when_empty(0)

    assert not held.add(context())
    assert len(held) == 0


def test_it_does_not_close_while_something_is_held() -> None:
    held, first = Held(), context("token-1")
    held.add(first)

    assert not held.close_when_empty(0.01)
    assert held.add(context("token-2"))


def test_it_closes_at_the_moment_at_which_the_last_one_leaves() -> None:
    held, last = Held(), context()
    held.add(last)
    leaving = threading.Timer(0.05, held.remove, [last])
    leaving.start()

    assert held.close_when_empty(10)
    assert not held.add(context("token-2"))
    leaving.join()


def test_a_handler_that_goes_on_after_its_cancellation_is_told_once() -> None:
    held, contexts = Held(), [context(f"token-{number}") for number in range(3)]
    for each in contexts:
        held.add(each)
    held.cancel(["token-0", "token-1"])
    held.reporting(contexts[1])

    assert held.deaf(100.0, 30.0) == []
    assert held.deaf(129.0, 30.0) == []
    assert held.deaf(130.0, 30.0) == [contexts[0]]
    assert held.deaf(500.0, 30.0) == []

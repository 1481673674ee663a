import threading

import pytest

from orbit_django.worker.allowance import Allowance
from tests.processes import wait_for


def test_without_a_limit_there_is_always_room() -> None:
    allowance = Allowance()
    for _ in range(100):
        assert allowance.reserve(0)
        allowance.received()
    assert not allowance.is_spent


@pytest.mark.promise("W1")
def test_no_more_is_reserved_than_may_come() -> None:
    allowance = Allowance(2)
    assert [allowance.reserve(0) for _ in range(4)] == [True, True, False, False]
    allowance.give_back()
    assert [allowance.reserve(0) for _ in range(2)] == [True, False]


def test_it_is_spent_when_that_many_have_come() -> None:
    allowance = Allowance(2)
    for spent in (False, True):
        assert allowance.reserve(0)
        allowance.received()
        assert allowance.is_spent is spent
    assert not allowance.reserve(0)


def test_whoever_waits_gets_what_is_given_back() -> None:
    allowance, got = Allowance(1), []
    allowance.reserve(0)
    waiting = threading.Thread(target=lambda: got.append(allowance.reserve(20)))
    waiting.start()
    wait_for(lambda: allowance._changed._waiters)
    allowance.give_back()
    waiting.join(10)
    assert got == [True]

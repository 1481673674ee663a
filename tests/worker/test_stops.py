import pytest

from orbit_django.worker.stops import StopRequests


def test_a_process_on_its_own_counts_its_signals() -> None:
    stops = StopRequests()
    levels = [stops.level]
    for _ in range(3):
        stops.signalled()
        levels.append(stops.level)
    assert levels == [0, 1, 2, 3]


@pytest.mark.promise("W5")
def test_signals_and_orders_for_one_end_are_one_request() -> None:
    stops = StopRequests()
    stops.supervised()
    levels = []
    for ask in (stops.signalled, stops.signalled, stops.ordered, stops.signalled, stops.ordered):
        ask()
        levels.append(stops.level)
    assert levels == [1, 1, 1, 1, 2]


@pytest.mark.promise("W1", "W5")
@pytest.mark.parametrize("before", [[], ["signalled"], ["ordered"], ["signalled", "signalled", "ordered"]])
def test_a_supervisor_that_is_gone_asks_once_and_then_signals_count(before: list[str]) -> None:
    stops = StopRequests()
    stops.supervised()
    for name in before:
        getattr(stops, name)()
    stops.orphaned()
    assert stops.level == 1
    stops.signalled()
    assert stops.level == 2


def test_an_end_at_once_remains_one_when_the_supervisor_is_gone() -> None:
    stops = StopRequests()
    stops.supervised()
    stops.ordered()
    stops.ordered()
    stops.orphaned()
    assert stops.level == 2

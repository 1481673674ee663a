import json
import threading

import pytest

from orbit_django.clock import FixedClock
from orbit_django.worker.vitals import BUCKETS, Depth, Progress, Vitals


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock()


@pytest.fixture
def vitals(clock: FixedClock) -> Vitals:
    return Vitals(clock)


def test_events_are_counted_by_their_labels(vitals: Vitals) -> None:
    for outcome in ("task", "empty", "task"):
        vitals.tell("polls", outcome)

    assert sorted(vitals.numbers().counts) == [["polls", "empty", 1], ["polls", "task", 2]]


def test_the_first_task_is_told_of_once(vitals: Vitals) -> None:
    told: list[int] = []
    vitals.received()
    vitals.on_first_task = lambda: told.append(1)
    vitals.received()
    vitals.received()

    assert told == [1]


def test_nothing_is_lost_between_threads(vitals: Vitals) -> None:
    def work() -> None:
        for _ in range(2_000):
            vitals.tell("polls", "task")
            vitals.ran("shop.pay", 1.0)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    numbers = vitals.numbers()

    assert numbers.counts == [["polls", "task", 16_000]]
    assert numbers.seconds["shop.pay"][0] == 16_000
    assert sum(numbers.seconds["shop.pay"][1:]) == 16_000


def test_codes_of_projects_share_one_label(vitals: Vitals) -> None:
    for code in ("UNHANDLED_EXCEPTION", "MINE-1", "MINE-2"):
        vitals.finished("shop.pay", "fail", code)
    vitals.finished("shop.pay", "complete")

    assert sorted(vitals.numbers().counts) == [
        ["task_failures", "shop.pay", "OTHER", 2],
        ["task_failures", "shop.pay", "UNHANDLED_EXCEPTION", 1],
        ["tasks", "shop.pay", "complete", 1],
        ["tasks", "shop.pay", "fail", 3],
    ]


@pytest.mark.parametrize(("seconds", "place"), [(0.0, 0), (0.005, 0), (0.006, 1), (1800.0, 9), (1801.0, 10)])
def test_a_run_falls_into_the_first_bucket_that_holds_it(vitals: Vitals, seconds: float, place: int) -> None:
    vitals.ran("shop.pay", seconds)
    total, *buckets = vitals.numbers().seconds["shop.pay"]

    assert total == seconds
    assert len(buckets) == len(BUCKETS) + 1
    assert [number for number, count in enumerate(buckets) if count] == [place]


def test_the_numbers_are_a_copy_that_json_can_carry(vitals: Vitals) -> None:
    vitals.loop("loop-1")
    vitals.ran("shop.pay", 1.0)
    vitals.beat()
    vitals.measured("default", Depth(1, 2, 1_699_999_000.0))
    numbers = vitals.numbers()
    vitals.ran("shop.pay", 1.0)
    vitals.tell("polls", "task")

    assert sum(numbers.seconds["shop.pay"][1:]) == 1
    assert numbers.counts == []
    assert json.loads(json.dumps(vars(numbers))) == vars(numbers)


def test_gauges_tell_what_is_true_now(vitals: Vitals, clock: FixedClock) -> None:
    one, _ = vitals.loop("loop-1"), vitals.loop("loop-2")
    assert vitals.numbers().gauges == {"loops": 2, "loops_busy": 0}
    vitals.beat()
    clock.advance(7)
    with one.busy():
        assert vitals.numbers().gauges == {"loops": 2, "loops_busy": 1, "heartbeat_age_seconds": 7}
    assert vitals.numbers().gauges["loops_busy"] == 0


def test_the_outbox_is_measured_only_when_somebody_watches_and_not_often(vitals: Vitals, clock: FixedClock) -> None:
    assert not vitals.wants_depth("default")
    vitals.is_watched = True
    assert vitals.wants_depth("default")
    vitals.measured("default", Depth(3, 1, clock.wall() - 40))

    assert not vitals.wants_depth("default")
    assert vitals.wants_depth("other")
    clock.advance(10)
    assert vitals.numbers().outbox == {"default": [3, 1, 50]}, "it grows older while it is not measured"
    clock.advance(5)
    assert vitals.wants_depth("default")


def test_an_empty_outbox_has_no_oldest(vitals: Vitals) -> None:
    vitals.measured("default", Depth(0, 0, None))

    assert vitals.numbers().outbox == {"default": [0, 0, None]}


class TestProgress:
    def test_an_answer_and_the_end_of_a_handler_begin_anew(self, clock: FixedClock) -> None:
        progress = Progress(clock)
        began = clock.monotonic()
        clock.advance(5)
        progress.answered()
        assert progress.since == began + 5
        with progress.busy():
            assert progress.is_busy
            clock.advance(500)
        assert not progress.is_busy
        assert progress.since == began + 505

    def test_a_handler_that_raises_is_over_as_well(self, clock: FixedClock) -> None:
        progress = Progress(clock)
        with pytest.raises(ValueError, match="x"), progress.busy():
            raise ValueError("x")

        assert not progress.is_busy

    def test_a_new_session_gives_time_once(self, clock: FixedClock) -> None:
        progress = Progress(clock)
        clock.advance(100)
        progress.has_session()
        first = progress.since
        assert first == clock.monotonic()
        clock.advance(100)
        progress.has_session()
        assert progress.since == first, "the session before brought no answer"
        progress.answered()
        clock.advance(100)
        progress.has_session()
        assert progress.since == clock.monotonic()

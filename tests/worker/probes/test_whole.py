import json
from dataclasses import dataclass, replace

import pytest

from orbit_django.clock import FixedClock
from orbit_django.worker.probes.health import Condition
from orbit_django.worker.probes.whole import Whole, report
from orbit_django.worker.vitals import Depth, Vitals


@dataclass(frozen=True)
class State:
    """What a supervisor knows of a process."""

    number: int
    pid: int | None
    started_at: float
    restarts: int
    line: str | None
    line_at: float | None


class Crew:
    """Two processes and the whole that they are."""

    def __init__(self) -> None:
        self.clock = FixedClock()
        self.is_stopping = False
        self.vitals = {1: Vitals(self.clock), 2: Vitals(self.clock)}
        self.states: dict[int, State] = {}
        self.whole = Whole(self.states.values, self.clock, lambda: self.is_stopping)
        for number in self.vitals:
            self.states[number] = State(number, 100 + number, self.clock.wall(), 0, None, None)
            self.tell(number)

    def tell(self, number: int, *, faults: tuple[str, ...] = (), obstacles: tuple[str, ...] = ()) -> None:
        """Have a process report."""
        line = report(Condition(list(faults), list(obstacles), self.vitals[number].numbers()))
        assert "\n" not in line
        self.change(number, line=line, line_at=self.clock.monotonic())

    def change(self, number: int, **changes: object) -> None:
        self.states[number] = replace(self.states[number], **changes)

    def lose(self, number: int) -> None:
        """End a process as a supervisor notices it."""
        self.whole.farewell(self.states[number])
        self.change(number, pid=None, line=None, line_at=None)

    def restart(self, number: int) -> None:
        self.vitals[number] = Vitals(self.clock)
        restarts = self.states[number].restarts + 1
        self.change(number, pid=200 + number, started_at=self.clock.wall(), restarts=restarts)

    def counted(self, name: str) -> dict[str, int]:
        counts = self.whole.condition().numbers.counts
        return {" ".join(labels): count for found, *labels, count in counts if found == name}

    def told(self) -> tuple[list[str], list[str]]:
        found = self.whole.condition()
        return found.faults, found.obstacles


@pytest.fixture
def crew() -> Crew:
    return Crew()


@pytest.mark.promise("W1", "W10")
def test_the_worst_process_is_the_whole(crew: Crew) -> None:
    assert crew.told() == ([], [])
    crew.tell(2, obstacles=("not registered with the runtime",))
    assert crew.told() == ([], ["process 2: not registered with the runtime"])
    crew.tell(1, faults=("relay: its thread has ended",), obstacles=("relay: its thread has ended",))
    assert crew.told()[0] == ["process 1: relay: its thread has ended"]
    assert len(crew.told()[1]) == 2


@pytest.mark.promise("W1", "W10")
def test_a_process_that_is_killed_and_started_again(crew: Crew) -> None:
    crew.lose(2)
    assert crew.told() == (["process 2: not running"], ["process 2: not running"])
    crew.clock.advance(1)
    crew.tell(1)
    crew.restart(2)
    assert crew.told() == ([], ["process 2: has not reported yet"]), "it is starting"
    crew.tell(2, obstacles=("the database has not been asked yet",))
    assert crew.told() == ([], ["process 2: the database has not been asked yet"])
    crew.tell(2)
    assert crew.told() == ([], [])
    assert crew.counted("process_restarts") == {"": 1}


@pytest.mark.promise("W1")
def test_a_process_that_does_not_get_through_its_start_is_a_fault(crew: Crew) -> None:
    crew.change(2, line=None, line_at=None)
    crew.clock.advance(61)
    crew.tell(1)

    assert crew.told() == (["process 2: has not reported yet"], ["process 2: has not reported yet"])


@pytest.mark.promise("W1", "W10")
def test_a_process_that_is_silent_is_a_fault(crew: Crew) -> None:
    crew.clock.advance(5)
    assert crew.told() == ([], [])
    crew.clock.advance(1)
    crew.tell(1)
    assert crew.told() == (["process 2: has not reported for 6 s"],) * 2


@pytest.mark.promise("W10")
def test_while_the_whole_drains_a_process_that_has_ended_is_no_fault(crew: Crew) -> None:
    crew.is_stopping = True
    crew.lose(2)
    faults, obstacles = crew.told()

    assert faults == []
    assert obstacles == ["draining: no process is started any more", "process 2: not running"]


def test_numbers_are_added_up(crew: Crew) -> None:
    for number, count in ((1, 2), (2, 3)):
        vitals = crew.vitals[number]
        for _ in range(count):
            vitals.tell("polls", "task")
            vitals.ran("shop.pay", 1.0)
        vitals.loop("loop-1").is_busy = number == 2
        vitals.beat()
        vitals.measured("default", Depth(7, number, crew.clock.wall() - 9))
        crew.clock.advance(1)
        crew.tell(number)
    crew.vitals[2].ran("shop.other", 1.0)
    crew.tell(2)
    numbers = crew.whole.condition().numbers

    assert crew.counted("polls") == {"task": 5}
    assert numbers.seconds["shop.pay"][0] == sum(numbers.seconds["shop.pay"][1:]) == 5
    assert numbers.seconds["shop.other"][0] == 1
    assert numbers.gauges == {"loops": 2, "loops_busy": 1, "heartbeat_age_seconds": 1, "processes": 2}
    assert numbers.outbox == {"default": [7, 2, 10]}, "both measure the same table"
    assert json.loads(json.dumps(vars(numbers))) == vars(numbers)


def test_no_counter_falls_when_a_process_ends(crew: Crew) -> None:
    for number in (1, 2):
        for _ in range(10):
            crew.vitals[number].tell("polls", "task")
            crew.vitals[number].ran("shop.pay", 1.0)
        crew.vitals[number].loop("loop-1")
        crew.tell(number)
    last = crew.states[2]
    crew.whole.farewell(last)
    assert crew.counted("polls") == {"task": 20}, "told of the end, but still in the list"
    crew.change(2, pid=None, line=None, line_at=None)
    assert crew.counted("polls") == {"task": 20}
    assert crew.whole.condition().numbers.gauges["loops"] == 1
    crew.clock.advance(1)
    crew.restart(2)
    crew.vitals[2].tell("polls", "task")
    crew.tell(2)
    assert crew.counted("polls") == {"task": 21}
    crew.lose(2)
    crew.lose(1)
    assert crew.counted("polls") == {"task": 21}
    assert crew.whole.condition().numbers.seconds["shop.pay"][0] == 20


def test_a_process_that_ended_without_a_report_leaves_nothing(crew: Crew) -> None:
    crew.change(2, line=None, line_at=None)
    crew.lose(2)

    assert crew.counted("polls") == {}

import threading
from collections.abc import Iterator

import pytest

from orbit_django.clock import FixedClock
from orbit_django.worker.gate import DatabaseGate
from orbit_django.worker.held import Held
from orbit_django.worker.probes.health import Health, Rooms, readable
from orbit_django.worker.runner import LoopThread, StoppedError
from orbit_django.worker.session import SessionHolder
from orbit_django.worker.vitals import Vitals
from tests.worker.words import REGISTRATION, HookedTransport, context

HELPERS = ("heartbeat", "relay", "sender-1")
POLLS = ("loop-1", "loop-2")
LIMIT = 50  # POLL_WAIT_MS and 30 s


class Waiting:
    """A loop that stays in its step until the test lets it end."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.leave = threading.Event()

    def step(self) -> float:
        self.leave.wait()
        raise StoppedError


class World:
    """A registered worker whose threads wait in their steps, and the time that passes meanwhile."""

    def __init__(self) -> None:
        self.clock = FixedClock()
        self.vitals = Vitals(self.clock)
        self.transport = HookedTransport()
        self.gate, self.held = DatabaseGate(), Held()
        self.stop, self.end = threading.Event(), threading.Event()
        self.session = SessionHolder(
            self.transport, REGISTRATION, held=self.held, clock=self.clock, stop=self.stop, on_refused=print
        )
        self.queued: set[int | None] = set()
        rooms = Rooms(self.session, self.gate, self.held, self.stop, self.end)
        self.health = Health(self.vitals, rooms, wait_ms=20_000, is_queued=self.queued.__contains__)
        self.loops = {name: Waiting(name) for name in (*HELPERS, *POLLS)}
        self.threads = {name: LoopThread(loop, self.end, self.clock) for name, loop in self.loops.items()}
        self.progress = {name: self.vitals.loop(name) for name in POLLS}

    def begin(self) -> None:
        self.session.current()
        self.vitals.looked()
        for thread in self.threads.values():
            thread.start()
        self.health.watch([self.threads[name] for name in POLLS], [self.threads[name] for name in HELPERS])

    def lose(self, name: str) -> None:
        """Let a thread end."""
        self.loops[name].leave.set()
        self.threads[name].join(10)

    def pass_by(self, seconds: float, *, without: str = "") -> None:
        """Let time pass in which every thread comes round and everybody answers, but one."""
        self.clock.advance(seconds)
        for name, thread in self.threads.items():
            if name != without:
                thread.gets_on()
        for name, progress in self.progress.items():
            if name != without:
                progress.answered()
        if without != "database":
            self.vitals.looked()

    @property
    def faults(self) -> list[str]:
        return self.health.condition().faults

    @property
    def obstacles(self) -> list[str]:
        return self.health.condition().obstacles

    def close(self) -> None:
        for name in self.loops:
            self.lose(name)


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    made.begin()
    yield made
    made.close()


def test_a_worker_that_works_lives_and_is_ready(world: World) -> None:
    assert (world.faults, world.obstacles) == ([], [])
    world.pass_by(100_000)
    assert (world.faults, world.obstacles) == ([], [])


@pytest.mark.promise("W10")
def test_a_worker_that_has_not_begun_lives_and_is_not_ready() -> None:
    world = World()

    assert world.faults == []
    assert world.obstacles == ["not registered with the runtime", "the database has not been asked yet"]


@pytest.mark.promise("W1")
@pytest.mark.parametrize("name", [*HELPERS, *POLLS])
def test_a_thread_that_ended_is_a_fault(world: World, name: str) -> None:
    world.lose(name)

    assert world.faults == [f"{name}: its thread has ended"]
    assert world.obstacles == world.faults


@pytest.mark.promise("W1")
@pytest.mark.parametrize(
    ("name", "limit"), [("heartbeat", 120), ("relay", 600), ("sender-1", 600), ("loop-1", 600), ("loop-2", 600)]
)
def test_a_thread_that_does_not_come_round_is_a_fault(world: World, name: str, limit: float) -> None:
    world.clock.advance(limit)
    world.pass_by(0, without=name)
    assert world.faults == []
    world.pass_by(1, without=name)
    assert world.faults == [f"{name}: stuck for {limit + 1} s"]


@pytest.mark.promise("W1")
def test_a_thread_that_waits_as_it_should_is_none(world: World) -> None:
    world.threads["sender-1"].gets_on(86_400)
    world.pass_by(86_400, without="sender-1")

    assert world.faults == []


@pytest.mark.promise("W10", "W1")
def test_a_handler_may_take_as_long_as_it_likes(world: World) -> None:
    with world.progress["loop-1"].busy():
        world.pass_by(100_000, without="loop-1")
        assert (world.faults, world.obstacles) == ([], [])
    assert world.obstacles == [], "after it, there is time for the next answer"


@pytest.mark.promise("W10")
def test_a_loop_whose_polls_are_not_answered_is_not_ready(world: World) -> None:
    world.pass_by(LIMIT, without="loop-2")
    assert world.obstacles == []
    world.pass_by(1, without="loop-2")
    assert world.obstacles == [f"loop-2: no poll was answered for {LIMIT + 1} s"]
    assert world.faults == []
    world.progress["loop-2"].answered()
    assert world.obstacles == []


@pytest.mark.promise("W10")
def test_without_a_session_it_is_not_ready(world: World) -> None:
    world.session.lost("session-1")

    assert world.obstacles == ["not registered with the runtime"]
    assert world.faults == []


@pytest.mark.promise("W10", "W7")
def test_with_the_database_away_it_is_not_ready(world: World) -> None:
    world.gate.close(OSError("secret"))

    assert world.obstacles == ["the database cannot be reached"]
    assert world.faults == []


@pytest.mark.promise("W10")
def test_with_a_database_that_hangs_it_is_not_ready(world: World) -> None:
    world.pass_by(15, without="database")
    assert world.obstacles == []
    world.pass_by(1, without="database")
    assert world.obstacles == ["the database has not answered for 16 s"]
    assert world.faults == []


def test_a_database_that_never_answered_is_told_with_its_time() -> None:
    world = World()
    world.session.current()
    world.clock.advance(20)

    assert world.obstacles[0] == "the database has not answered for 20 s"


def test_a_writer_that_waits_for_its_turn_is_no_trouble(world: World) -> None:
    world.queued.update({world.threads["relay"].ident, world.threads["sender-1"].ident})
    for _ in range(100):
        world.clock.advance(40)
        for name in ("heartbeat", *POLLS):
            world.threads[name].gets_on()
        for progress in world.progress.values():
            progress.answered()

    assert (world.faults, world.obstacles) == ([], [])
    world.queued.clear()
    assert world.faults == ["relay: stuck for 4000 s", "sender-1: stuck for 4000 s"]
    assert "the database has not answered for 4000 s" in world.obstacles


@pytest.mark.promise("W10")
def test_a_worker_that_drains_lives_and_is_not_ready(world: World) -> None:
    world.stop.set()
    world.lose("loop-1")

    assert world.faults == []
    assert world.obstacles == ["draining: no new work is taken"]
    world.lose("relay")
    assert world.faults == ["relay: its thread has ended"]
    world.end.set()
    assert world.faults == []


def test_what_is_counted_comes_along(world: World) -> None:
    world.held.add(context())
    world.vitals.tell("polls", "task")
    found = readable(world.health.condition())

    assert found["faults"] == found["obstacles"] == []
    assert found["numbers"]["gauges"] == {"loops": 2, "loops_busy": 0, "held_deliveries": 1}
    assert found["numbers"]["counts"] == [["polls", "task", 1], ["session_registrations", 1]]

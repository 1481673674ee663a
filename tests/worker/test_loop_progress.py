import pytest

from orbit_django.exceptions import ConfigurationError, NoAnswerError, UnknownSessionError
from orbit_django.models import OutboxMessage
from orbit_django.worker.vitals import Progress
from tests.worker.looping import EMPTY, MESSAGE, World
from tests.worker.words import refusal


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def progress(world: World) -> Progress:
    return world.rooms.vitals.loops["loop-1"]


def test_polls_are_counted_by_what_came_of_them(world: World) -> None:
    world.transport.script("poll", EMPTY, NoAnswerError("cut off", is_maybe_processed=False), refusal(401))
    world.transport.script("poll", ConfigurationError("token"), UnknownSessionError("gone"))
    for _ in range(5):
        world.loop.step()
    world.receive(MESSAGE)

    assert sorted(world.rooms.vitals.numbers().counts) == [
        ["polls", "empty", 1],
        ["polls", "no_answer", 1],
        ["polls", "refused", 2],
        ["polls", "task", 1],
        ["polls", "unknown_session", 1],
    ]


@pytest.mark.promise("W10")
def test_a_loop_is_busy_from_the_task_to_the_next_poll(world: World, progress: Progress) -> None:
    found: list[bool] = []

    def look() -> OutboxMessage:
        found.append(progress.is_busy)
        world.clock.advance(500)
        return MESSAGE

    world.receive(look)

    assert found == [True]
    assert not progress.is_busy
    assert progress.since == world.clock.ticks


@pytest.mark.promise("W10")
@pytest.mark.parametrize("answer", [NoAnswerError("down", is_maybe_processed=False), refusal(401), refusal(422)])
def test_what_is_no_answer_to_a_poll_counts_as_silence(world: World, progress: Progress, answer: Exception) -> None:
    world.transport.script("poll", EMPTY, answer)
    world.loop.step()
    since = progress.since
    world.clock.advance(30)
    world.loop.step()
    assert progress.since == since
    world.loop.step()
    assert progress.since == world.clock.ticks


@pytest.mark.promise("W10")
def test_sessions_that_bring_no_answer_do_not_count_as_answers(world: World, progress: Progress) -> None:
    world.loop.step()
    world.transport.script("poll", *[UnknownSessionError("gone")] * 3)
    found = []
    for _ in range(3):
        world.clock.advance(40)
        world.loop.step()
        found.append(world.clock.ticks - progress.since)

    assert found == [40, 0, 40]


@pytest.mark.promise("W10", "W7")
def test_a_loop_that_waits_for_the_database_expects_no_answer(world: World, progress: Progress) -> None:
    world.gate.close(OSError("down"))
    world.clock.advance(500)
    world.loop.step()

    assert progress.since == world.clock.ticks

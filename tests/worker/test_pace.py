import pytest
from django.db.models import F

from orbit_django.clock import FixedClock
from orbit_django.exceptions import NoAnswerError, PayloadError
from orbit_django.models import OutboxMessage
from orbit_django.worker.pace import Lane, Pace
from tests.worker.relaying import Status, World, due, earn, stored
from tests.worker.words import refusal


@pytest.fixture
def pace() -> Pace:
    return Pace(FixedClock())


def fail(pace: Pace, times: int = 8) -> None:
    for _ in range(times):
        pace.unanswered()


def test_everything_goes_at_once_while_the_runtime_answers(pace: Pace) -> None:
    fail(pace, 7)
    assert all(pace.take(Lane.AGAIN) for _ in range(1000))


@pytest.mark.promise("D6")
def test_four_a_second_of_each_lane_go_while_it_does_not(pace: Pace) -> None:
    fail(pace)
    taken = dict.fromkeys(Lane, 0)
    for _ in range(1000):
        for lane in Lane:
            taken[lane] += pace.take(lane)
        pace._clock.advance(0.01)
    assert all(39 <= count <= 41 for count in taken.values()), taken


def test_one_answer_gives_everything_free_again(pace: Pace) -> None:
    fail(pace, 99)
    pace.take(Lane.AGAIN)
    pace.answered()
    assert all(pace.take(Lane.AGAIN) for _ in range(100))


@pytest.fixture
def world(transactional_db: None) -> World:
    return World()


TROUBLE = {
    "no answer": lambda: NoAnswerError("500"),
    "a credential": lambda: refusal(403, "FORBIDDEN"),
    "a proxy": lambda: refusal(429, is_from_runtime=False),
}


@pytest.mark.promise("D6")
@pytest.mark.parametrize("error", TROUBLE.values(), ids=TROUBLE.keys())
def test_a_thousand_messages_are_no_flood_for_a_runtime_in_trouble(world: World, error) -> None:
    for number in range(40):
        due(f"token-{number}")
    world.transport.script("send", *[error() for _ in range(400)])
    for _ in range(100):
        world.look()
        world.clock.advance(0.1)

    assert len(world.sent()) <= 8 + 4 + 10 * 4


@pytest.mark.promise("D6", "D5")
def test_what_was_just_committed_has_its_own_turn_and_is_due_at_once_when_it_has_none(world: World) -> None:
    world.transport.script("send", *[NoAnswerError("500")] * 9)
    for number in range(8):
        world.relay.deliver(earn(f"token-{number}"))
    world.relay.report(earn("first"))
    world.relay.report(earn("second"))

    assert len(world.sent()) == 9
    assert (stored(token="second").attempts, stored(token="first").attempts) == (0, 1)
    world.relay.report(earn("third"))
    world.clock.advance(1)
    world.relay.report(earn("fourth"))
    assert stored(token="fourth").status == Status.DELIVERED
    # The database's clock goes on: on a slow machine those that got no answer would be due again by now.
    OutboxMessage.objects.pending().filter(attempts__gt=0).update(due_at=F("due_at") + 60_000)
    assert world.look() == 2, "the two that had no turn"
    assert OutboxMessage.objects.filter(status=Status.DELIVERED).count() == 3


@pytest.mark.promise("D5")
@pytest.mark.parametrize("kind", ["later", ""])
def test_a_row_of_an_unknown_kind_is_set_aside_with_a_clear_text(world: World, kind: str) -> None:
    due("odd")
    OutboxMessage.objects.update(kind=kind)
    due("good")

    assert world.look() == 1
    odd = stored(kind, "odd")
    assert (odd.status, odd.last_status) == (Status.BLOCKED, None)
    assert "no report that could be sent" in odd.last_error
    assert repr(kind) in odd.last_error


@pytest.mark.promise("D5")
def test_a_row_whose_body_no_request_can_carry_is_set_aside(world: World) -> None:
    due("odd")
    world.transport.script("send", PayloadError("$", "a lone surrogate"))
    world.look()

    assert stored(token="odd").status == Status.BLOCKED


@pytest.mark.promise("W8")
def test_nothing_is_sent_before_the_runtime_was_asked_for_a_session(transactional_db: None) -> None:
    answers = [False, False, True]
    due("early")
    world = World(is_admitted=lambda: answers.pop(0))

    assert (world.look(), world.look()) == (0, 1)

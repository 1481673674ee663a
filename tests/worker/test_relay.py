import logging
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import IntegrityError, OperationalError

from orbit_django import outbox
from orbit_django.exceptions import ConfigurationError, NoAnswerError
from orbit_django.models import OutboxMessage
from orbit_django.protocol import Receipt
from orbit_django.worker.relay import IDLE_SECONDS, Sender
from tests.worker.relaying import OTHER, Status, World, due, earn, stored, wait_of
from tests.worker.words import assert_backs_off, refusal

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.databases]


@pytest.fixture
def world() -> World:
    return World()


def held() -> list[OutboxMessage]:
    return list(OutboxMessage.objects.exclude(sender=""))


@pytest.fixture
def unsteady(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, list[Exception]]]:
    """Let writes of the outbox fail: errors by the name of the function, used up one by one."""
    errors: dict[str, list[Exception]] = {}

    def wrap(name: str) -> None:
        real = getattr(outbox, name)

        def write(*args: Any) -> Any:
            if errors.get(name):
                raise errors[name].pop(0)
            return real(*args)

        monkeypatch.setattr(outbox, name, write)

    for name in ("settle", "postpone", "block", "refuse", "leave_to_owner"):
        wrap(name)
    return errors


@pytest.mark.promise("D1")
def test_a_message_whose_id_is_lower_than_one_that_was_sent_is_found(world: World) -> None:
    late, _ = due("late"), due("early")  # as if the transaction of the first had committed last
    OutboxMessage.objects.filter(pk=late.pk).update(due_at=None)
    assert world.look() == 1
    OutboxMessage.objects.filter(pk=late.pk).update(due_at=1)
    assert world.look() == 1


@pytest.mark.promise("D1", "D4")
def test_a_result_without_an_answer_falls_due_again_later_and_later(world: World) -> None:
    message = earn()
    world.transport.script("send", *[NoAnswerError("down")] * 7)
    waits = []
    for _ in range(7):
        world.relay.deliver(message)
        waits.append(wait_of(stored()))
        message = stored()

    assert_backs_off(waits, late=0.15)
    assert (message.status, message.attempts, message.last_error) == (Status.PENDING, 7, "down")
    assert world.due == [True] * 7
    world.relay.deliver(message)
    assert stored().status == Status.DELIVERED
    assert len(set(world.transport.named("send"))) == 1, "the same bytes, every time"


def test_the_next_look_comes_when_the_next_message_falls_due(world: World) -> None:
    assert world.relay.step() == IDLE_SECONDS
    world.transport.script("send", NoAnswerError("down"))
    world.relay.deliver(earn())

    assert 0.19 < world.relay.step() < 0.25
    world.clock.advance(0.3)
    assert world.relay.step() in (IDLE_SECONDS, 0.02)


def test_failing_deliveries_are_logged_at_the_first_and_tenth_time(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    message = earn()
    world.transport.script("send", *[NoAnswerError("down")] * 12)
    for _ in range(12):
        world.relay.deliver(message)

    assert [record.tries for record in caplog.records if record.levelno == logging.WARNING] == [1, 10]


@pytest.mark.promise("W9")
def test_no_credential_is_kept_or_logged(world: World, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "orbit_django")
    for number, answer in enumerate(
        [NoAnswerError("the SECRET"), refusal(401, message="SECRET"), Receipt(accepted=False, reason="SECRET")]
    ):
        world.transport.script("send", answer)
        world.relay.deliver(earn(f"token-{number}"))

    assert not [message for message in OutboxMessage.objects.all() if "SECRET" in message.last_error]
    assert not [record for record in caplog.records if "SECRET" in str(vars(record))]


def test_a_message_that_has_its_answer_is_not_sent(world: World) -> None:
    world.relay.deliver(earn())
    world.relay.deliver(stored())

    assert len(world.sent()) == 1


@pytest.mark.promise("D5")
def test_what_one_sender_holds_no_other_takes(world: World) -> None:
    due()
    world.relay.step()

    assert World().look() == 0
    assert World(OTHER).look() == 0
    assert world.relay.step() == IDLE_SECONDS
    Sender(world.relay, 1).step()
    assert stored().status == Status.DELIVERED


@pytest.mark.promise("D1")
def test_any_worker_sends_what_a_dead_one_left(world: World) -> None:
    due("token-1", OTHER)
    due("token-2", OTHER, seconds=0)

    assert world.look() == 1, "what fell due just now is left to the one that earned it"
    assert stored().status == Status.DELIVERED
    assert stored(token="token-2").status == Status.PENDING


def test_no_more_is_taken_than_can_be_sent_at_once(world: World) -> None:
    for number in range(6):
        due(f"token-{number}")

    assert [world.look() for _ in range(3)] == [4, 2, 0]


@pytest.mark.promise("D5")
def test_slow_senders_leave_the_others_free() -> None:
    world = World(senders=2)
    for number in range(3):
        due(f"token-{number}")
    assert [world.relay.step() for _ in range(2)] == [0.02, 0.02]
    assert len(held()) == 2, "the third is left to others meanwhile"
    world.relay.send_next()
    world.relay.step()
    assert (len(held()), OutboxMessage.objects.filter(status=Status.DELIVERED).count()) == (2, 1), "one was free again"


def test_a_backlog_that_is_answered_at_once_is_taken_in_growing_numbers(world: World) -> None:
    for number in range(40):
        due(f"token-{number}")
    assert [world.look() for _ in range(5)] == [4, 8, 16, 12, 0]


@pytest.mark.promise("D5")
def test_what_waited_long_for_a_sender_is_held_anew_or_left_to_who_has_it(world: World) -> None:
    for number in range(2):
        due(f"token-{number}")
    world.relay.step()
    OutboxMessage.objects.filter(token="token-1").update(sender="another")
    world.clock.advance(6)
    for _ in range(2):
        Sender(world.relay, 1).step()
    assert [body["token"] for _, body in world.sent()] == ["token-0"]


def test_an_unexpected_error_costs_no_sender() -> None:
    world = World(senders=1)
    for number in range(2):
        due(f"token-{number}", seconds=number - 10)
    world.transport.script("send", ConfigurationError("a token file went bad"))
    world.relay.step()
    with pytest.raises(ConfigurationError):
        world.relay.send_next()

    assert world.look() == 1
    assert stored().status == stored(token="token-1").status == Status.DELIVERED


@pytest.mark.promise("D2")
def test_an_answer_that_the_database_does_not_take_is_filed_later(
    world: World, unsteady: dict[str, list[Exception]]
) -> None:
    unsteady["settle"] = [OperationalError("away")] * 3
    world.relay.deliver(earn())
    for _ in range(2):
        world.relay.step()
        assert stored().status == Status.PENDING
    world.relay.step()

    assert stored().status == Status.DELIVERED
    assert len(world.sent()) == 1


@pytest.mark.parametrize(
    ("write", "answer", "status"),
    [
        ("postpone", NoAnswerError("down"), Status.PENDING),
        ("block", refusal(401), Status.BLOCKED),
        ("refuse", refusal(422), Status.REFUSED),
    ],
)
def test_every_kind_of_news_is_filed_later(
    world: World, unsteady: dict[str, list[Exception]], write: str, answer: Exception, status: str
) -> None:
    unsteady[write] = [OperationalError("away")]
    world.transport.script("send", answer)
    world.relay.deliver(earn())
    assert stored().last_status is None
    world.relay.step()

    assert stored().status == status
    assert stored().attempts == 1


def test_news_that_the_database_never_takes_hold_up_no_other_message(
    world: World, unsteady: dict[str, list[Exception]]
) -> None:
    unsteady["settle"] = [IntegrityError("never")] * 50
    world.relay.deliver(earn("token-1"))
    due("token-2")
    for _ in range(3):
        world.look()

    assert len(world.sent()) == 2


def test_a_refusal_that_comes_too_late_holds_up_nothing(world: World) -> None:
    message = earn()
    world.transport.script("send", refusal(422))
    world.relay.deliver(stored())
    due("token-2")
    world.transport.script("send", refusal(422))
    world.relay.deliver(message)
    world.look()

    assert stored(token="token-2").status == Status.DELIVERED
    assert OutboxMessage.objects.filter(token="token-1").count() == 2
    assert world.gate.is_open


@pytest.mark.promise("W7")
def test_a_look_opens_the_gate(world: World) -> None:
    world.gate.close(OSError("down"))
    world.relay.step()

    assert world.gate.is_open


def test_what_is_owed_is_known_until_it_is_answered(world: World) -> None:
    assert not world.relay.has_pending()
    message = earn()
    assert world.relay.has_pending()
    world.transport.script("send", NoAnswerError("down"))
    world.relay.deliver(message)
    assert world.relay.has_pending()
    world.relay.deliver(message)
    assert not world.relay.has_pending()

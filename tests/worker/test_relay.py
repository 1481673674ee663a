import json
import logging
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from django.db import IntegrityError, OperationalError, transaction

from orbit_django import idempotency, outbox
from orbit_django.clock import FixedClock
from orbit_django.dialects import dialect_of
from orbit_django.exceptions import ConfigurationError, NoAnswerError
from orbit_django.idempotency import Claim, Key
from orbit_django.models import IdempotencyRecord, OutboxMessage
from orbit_django.outbox import Origin
from orbit_django.payloads import encode_failure
from orbit_django.protocol import Failure, Kind, Receipt
from orbit_django.testing.transport import RecordingTransport
from orbit_django.worker.gate import DatabaseGate
from orbit_django.worker.relay import Relay, Sender
from tests.worker.words import TOKEN, assignment, refusal

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.databases]

Status = OutboxMessage.Status
OWN = Origin("shop-1", "http://runtime.test")
OTHER = Origin("shop-2", "http://runtime.test")
BIG = Failure("CARD_DECLINED", "no " * 2_000, retryable=False, details={"text": "x" * 5_000})


class World:
    """A relay over the recording binding and the test's database."""

    def __init__(self, origin: Origin = OWN, **options: Any) -> None:
        self.transport = RecordingTransport()
        self.clock = FixedClock()
        self.gate = DatabaseGate()
        self.due: list[bool] = []
        self.relay = Relay(
            self.transport,
            origin,
            ["default"],
            clock=self.clock,
            gate=self.gate,
            redact=lambda text: text.replace("SECRET", "****"),
            on_due=partial(self.due.append, True),
            **options,
        )
        self.relay.step()  # what was blocked before it began

    def sent(self) -> list[tuple[Kind, dict[str, Any]]]:
        return [(kind, json.loads(body)) for kind, body in self.transport.named("send")]

    def look(self) -> int:
        """Look once and send what was taken; return how many messages that were."""
        before = len(self.sent())
        self.relay.step()
        for _ in range(self.relay._taken.qsize()):
            Sender(self.relay, 1).step()
        return len(self.sent()) - before


@pytest.fixture
def world() -> World:
    return World()


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


def earn(token: str = TOKEN, origin: Origin = OWN, failure: Failure | None = None) -> OutboxMessage:
    """Commit an outcome and return its message, held as the executor hands it over."""
    given = assignment(token, idempotency_key=f"e-1/{token}")
    error = None if failure is None else encode_failure(failure, 4 * 1024 * 1024)
    output = '{"charge":"c-1"}' if error is None else None
    with dialect_of("default").writing(), transaction.atomic():
        claim = idempotency.begin(Key.of(given, "default"), owner=idempotency.new_owner(), worker_id=origin.worker_id)
        assert isinstance(claim, Claim)
        record = idempotency.finish(claim, output=output, error=error)
        return outbox.append(given, origin, using="default", record=record, error=error)


def due(token: str = TOKEN, origin: Origin = OWN, seconds: float = -5, **options: Any) -> OutboxMessage:
    """Commit an outcome whose message waits for a relay, due since so many seconds."""
    message = earn(token, origin, **options)
    outbox.postpone(message, seconds, "")
    OutboxMessage.objects.filter(pk=message.pk).update(attempts=0)
    return message


def stored(kind: str = "complete", token: str = TOKEN) -> OutboxMessage:
    return OutboxMessage.objects.get(kind=kind, token=token)


def wait_of(message: OutboxMessage) -> float:
    """Return in how many seconds a message falls due, by the database's clock."""
    return (message.due_at - dialect_of("default").read_now_ms()) / 1000


def levels(caplog: pytest.LogCaptureFixture) -> list[int]:
    return [record.levelno for record in caplog.records]


@pytest.mark.promise("D2")
def test_an_accepted_result_is_delivered(world: World) -> None:
    world.relay.deliver(earn())

    assert world.sent() == [(Kind.COMPLETE, {"token": "token-1", "output": {"charge": "c-1"}})]
    message = stored()
    assert (message.status, message.accepted, message.due_at, message.attempts) == (Status.DELIVERED, True, None, 1)
    assert message.settled_at is not None
    assert world.look() == 0


@pytest.mark.promise("D2")
@pytest.mark.parametrize(
    ("reason", "level"),
    [
        ("duplicate result; step already resolved", logging.INFO),
        ("stale attempt", logging.INFO),
        ("unknown token (execution finished or token invalid)", logging.INFO),
        ("output violates the task contract", logging.ERROR),
        ("the moon is full", logging.WARNING),
    ],
)
def test_a_result_that_is_not_accepted_is_refused_with_its_reason(
    world: World, caplog: pytest.LogCaptureFixture, reason: str, level: int
) -> None:
    caplog.set_level(logging.INFO, "orbit_django")
    message = earn()
    caplog.clear()
    world.transport.script("send", Receipt(accepted=False, reason=reason))
    world.relay.deliver(message)

    assert (stored().status, stored().accepted, stored().reason) == (Status.REFUSED, False, reason)
    assert levels(caplog) == [level]
    assert caplog.records[0].reason == reason
    assert world.look() == 0
    assert OutboxMessage.objects.count() == 1


@pytest.mark.promise("D2")
@pytest.mark.parametrize(
    "error",
    [
        refusal(401, "UNAUTHENTICATED"),
        refusal(403, "FORBIDDEN"),
        refusal(403, is_from_runtime=False),
        refusal(404, is_from_runtime=False),
        refusal(408, is_from_runtime=False),
        refusal(413, is_from_runtime=False),
        refusal(429, is_from_runtime=False),
        refusal(307, is_from_runtime=False),
    ],
    ids=str,
)
def test_what_says_nothing_about_the_result_blocks_it(world: World, error: Exception) -> None:
    world.transport.script("send", error)
    world.relay.deliver(earn())

    message = stored()
    assert (message.status, message.last_status, message.due_at) == (Status.BLOCKED, error.status, None)
    assert message.last_error == str(error)
    assert [world.look() for _ in range(3)] == [0, 0, 0]
    assert OutboxMessage.objects.count() == 1


@pytest.mark.promise("D2")
def test_what_is_blocked_is_tried_once_by_a_new_worker(world: World) -> None:
    world.transport.script("send", refusal(401))
    world.relay.deliver(earn())
    first = World()
    first.transport.script("send", refusal(401))
    Sender(first.relay, 1).step()

    assert len(first.sent()) == 1
    assert stored().status == Status.BLOCKED
    assert [first.look() for _ in range(3)] == [0, 0, 0], "once"
    second = World()
    Sender(second.relay, 1).step()
    assert stored().status == Status.DELIVERED


@pytest.mark.promise("D2")
def test_a_blocked_message_of_another_server_stays_blocked(world: World) -> None:
    world.transport.script("send", refusal(401))
    world.relay.deliver(earn())
    elsewhere = World(Origin("shop-1", "http://elsewhere.test"))

    assert elsewhere.look() == 0
    assert stored().status == Status.BLOCKED


@pytest.mark.promise("D2")
def test_what_belongs_to_another_identity_is_left_to_it(world: World) -> None:
    due(origin=OTHER)
    world.transport.script("send", refusal(403, "FORBIDDEN"))

    assert world.look() == 1
    assert (stored().status, stored().last_status) == (Status.PENDING, 403)
    assert [world.look() for _ in range(3)] == [0, 0, 0]
    assert World().look() == 0, "nor does another start of the wrong worker take it"
    assert World(OTHER).transport.named("send") == []
    owner = World(OTHER)
    outbox.postpone(stored(), -5, "")
    assert owner.look() == 1
    assert stored().status == Status.DELIVERED


@pytest.mark.promise("D3")
@pytest.mark.parametrize(
    ("status", "code"),
    [(400, "RESULT_REFUSED"), (404, "RESULT_REFUSED"), (413, "RESULT_TOO_LARGE"), (422, "RESULT_REFUSED")],
)
def test_a_success_that_the_runtime_refuses_is_followed_by_a_small_failure(
    world: World, status: int, code: str
) -> None:
    world.transport.script("send", refusal(status, "INVALID_REQUEST", "no such thing"))
    world.relay.deliver(earn())

    (_, first), (kind, second) = world.sent()
    assert first["output"] == {"charge": "c-1"}
    assert (kind, second["token"], second["error_code"], second["retryable"]) == (Kind.FAIL, "token-1", code, False)
    assert second["details"]["status"] == status
    assert "no such thing" in second["details"]["message"]
    assert (stored().status, stored("fail").status) == (Status.REFUSED, Status.DELIVERED)
    assert IdempotencyRecord.objects.get().status == "succeeded"
    assert world.look() == 0


@pytest.mark.promise("D3")
def test_the_failure_that_follows_is_sent_until_it_is_answered(world: World) -> None:
    world.transport.script("send", refusal(422), NoAnswerError("down"))
    world.relay.deliver(earn())

    assert stored("fail").status == Status.PENDING
    outbox.postpone(stored("fail"), -5, "")
    assert world.look() == 1
    assert stored("fail").status == Status.DELIVERED


@pytest.mark.promise("D3")
def test_a_failure_that_is_too_large_is_cut_down_and_sent_once_more(world: World) -> None:
    world.transport.script("send", refusal(413))
    world.relay.deliver(earn(failure=BIG))

    (_, first), (kind, second) = world.sent()
    assert (kind, second["token"], second["error_code"], second["retryable"]) == (
        Kind.FAIL,
        "token-1",
        "CARD_DECLINED",
        False,
    )
    assert len(json.dumps(second)) < 500 < len(json.dumps(first))
    assert stored("fail").status == Status.DELIVERED


@pytest.mark.promise("D3")
def test_a_failure_that_is_refused_twice_ends_there(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.transport.script("send", refusal(413), refusal(413))
    world.relay.deliver(earn(failure=BIG))

    assert len(world.sent()) == 2
    assert stored("fail").status == Status.REFUSED
    assert logging.ERROR in levels(caplog)
    assert world.look() == 0


@pytest.mark.promise("D3")
@pytest.mark.parametrize("status", [400, 422])
def test_a_refused_failure_ends_there(world: World, status: int) -> None:
    world.transport.script("send", refusal(status))
    world.relay.deliver(earn(failure=BIG))

    assert len(world.sent()) == 1
    assert stored("fail").status == Status.REFUSED


@pytest.mark.promise("D1", "D4")
def test_a_result_without_an_answer_falls_due_again_later_and_later(world: World) -> None:
    message = earn()
    world.transport.script("send", *[NoAnswerError("down")] * 7)
    waits = []
    for _ in range(7):
        world.relay.deliver(message)
        waits.append(wait_of(stored()))
        message = stored()

    usual = (0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0)
    assert all(low - 0.15 <= wait <= 1.2 * low for low, wait in zip(usual, waits, strict=True)), waits
    assert (message.status, message.attempts, message.last_error) == (Status.PENDING, 7, "down")
    assert world.due == [True] * 7
    world.relay.deliver(message)
    assert stored().status == Status.DELIVERED
    assert len(set(world.transport.named("send"))) == 1, "the same bytes, every time"


def test_the_next_look_comes_when_the_next_message_falls_due(world: World) -> None:
    assert world.relay.step() == 1.0
    world.transport.script("send", NoAnswerError("down"))
    world.relay.deliver(earn())

    assert 0.19 < world.relay.step() < 0.25
    world.clock.advance(0.3)
    assert world.relay.step() in (1.0, 0.02)


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
    assert world.relay.step() == 1.0
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
    world.relay.step()
    world.relay.send_next()

    assert world.relay.step() == 0.02, "one is free again"
    assert world.relay.step() == 1.0, "none is"


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
    unsteady["settle"] = [OperationalError("away")]
    world.relay.deliver(earn())
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

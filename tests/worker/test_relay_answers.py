import json
import logging
from collections.abc import Iterator

import pytest

from orbit_django import outbox
from orbit_django.exceptions import NoAnswerError
from orbit_django.logs import ExtrasFormatter
from orbit_django.models import IdempotencyRecord, OutboxMessage
from orbit_django.outbox import Origin
from orbit_django.protocol import Kind, Receipt
from orbit_django.worker.relay import Sender
from tests.worker.relaying import BIG, OTHER, OWN, Status, World, due, earn, levels, stored
from tests.worker.words import refusal

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.databases]


@pytest.fixture
def world() -> World:
    return World()


@pytest.mark.promise("D2")
def test_an_accepted_result_is_delivered(world: World) -> None:
    world.relay.deliver(earn())

    assert world.sent() == [(Kind.COMPLETE, {"token": "token-1", "output": {"charge": "c-1"}})]
    message = stored()
    assert (message.status, message.accepted, message.due_at, message.attempts) == (Status.DELIVERED, True, None, 1)
    assert message.settled_at is not None
    assert world.look() == 0


def test_the_line_of_an_answer_names_the_step_and_gives_no_empty_reason(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "orbit_django")
    world.relay.deliver(earn())
    said = next(record for record in caplog.records if record.message == "a result was answered")
    line = ExtrasFormatter("%(message)s").format(said)
    assert line == (
        "a result was answered execution=e-1 step=charge task=shop.charge attempt=1 kind=complete tries=1 accepted=True"
    )


def test_the_line_of_an_answer_names_no_step_of_another_execution(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "orbit_django")
    message = earn()
    message.execution_id = "e-2"
    world.relay.deliver(message)
    said = next(record for record in caplog.records if record.message == "a result was answered")
    assert (said.execution, said.task, hasattr(said, "step")) == ("e-2", "shop.charge", False)


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
    said = caplog.records[0]
    assert (said.reason, said.execution, said.step, said.task, said.attempt) == (
        reason, "e-1", "charge", "shop.charge", 1,
    )  # fmt: skip
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
        refusal(307, "MOVED"),
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
def test_what_was_blocked_before_the_relay_first_looked_is_not_tried_again() -> None:
    admitted: list[bool] = []
    world = World(is_admitted=lambda: bool(admitted))
    world.transport.script("send", refusal(401))
    world.relay.deliver(earn())
    admitted.append(True)

    assert [world.look() for _ in range(3)] == [0, 0, 0]
    assert stored().status == Status.BLOCKED


@pytest.mark.promise("D2")
def test_what_is_blocked_while_the_relay_looks_is_not_tried_again(world: World) -> None:
    def meanwhile() -> Iterator[OutboxMessage]:
        world.transport.script("send", refusal(401))
        world.relay.deliver(earn())
        yield from ()

    assert outbox.unblock("default", OWN, meanwhile()) == 0
    assert stored().status == Status.BLOCKED


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

import logging
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import connections, transaction
from django.dispatch import Signal
from django.utils import translation

from orbit_django import outbox, signals
from orbit_django.context import TaskContext
from orbit_django.models import OutboxMessage
from orbit_django.protocol import Kind, Receipt
from orbit_django.worker import announce
from orbit_django.worker.delivery import Deferred
from tests.ledger import Desk, charge
from tests.testapp.models import Charge
from tests.worker import relaying
from tests.worker.looping import MESSAGE
from tests.worker.looping import World as LoopWorld
from tests.worker.relaying import BIG, earn, stored
from tests.worker.words import context, refusal

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.databases]

Heard = list[dict[str, Any]]


class Ear:
    """Connects receivers for a test's time."""

    def __init__(self) -> None:
        self._connected: list[tuple[Signal, Callable[..., Any]]] = []

    def on(self, signal: Signal, receiver: Callable[..., Any], sender: Any = None) -> None:
        signal.connect(receiver, sender=sender, weak=False)
        self._connected.append((signal, receiver))

    def to(self, signal: Signal) -> Heard:
        """Return the list into which what is sent is written."""
        heard: Heard = []
        self.on(signal, lambda **named: heard.append(named))
        return heard

    def close(self) -> None:
        for signal, receiver in self._connected:
            signal.disconnect(receiver)
        for signal in vars(signals).values():
            if isinstance(signal, Signal):
                signal.receivers = []


@pytest.fixture
def ear() -> Iterator[Ear]:
    ear = Ear()
    yield ear
    ear.close()


def test_a_delivery_is_told_once_before_it_is_executed(ear: Ear) -> None:
    heard = ear.to(signals.task_received)
    world = LoopWorld()
    before: list[int] = []

    def parked() -> Deferred:
        before.append(len(heard))
        return Deferred.PARKED

    world.receive(parked)
    world.answers.append(MESSAGE)
    world.parked[0][1]()
    assert before == [1]
    assert [each["context"] for each in heard] == world.executed[:1]
    assert heard[0]["signal"] is signals.task_received


@pytest.mark.parametrize("atomic", [True, False])
def test_an_outcome_is_told_with_how_it_came_about(ear: Ear, atomic: bool) -> None:
    heard = ear.to(signals.task_finished)
    desk = Desk(charge, is_atomic=atomic)
    desk.deliver({"amount": 5}, token="t1")
    desk.deliver({"amount": 5}, token="t2", redelivery=True)
    desk.deliver({"amount": 6}, token="t3")
    desk.deliver(task_name="foreign.task", token="t4")

    assert [(each["outcome"], each["code"]) for each in heard] == [
        ("complete", ""),
        ("replay", ""),
        ("conflict", ""),
        ("fail", "UNKNOWN_TASK"),
    ]
    assert [each["context"].token for each in heard] == ["t1", "t2", "t3", "t4"]
    assert [each["sender"] for each in heard] == [*[desk._counting] * 3, None]


def test_a_failure_is_told_with_its_code(ear: Ear) -> None:
    heard = ear.to(signals.task_finished)
    Desk(lambda input, ctx: 1 / 0).deliver()
    assert [(each["outcome"], each["code"]) for each in heard] == [("fail", "UNHANDLED_EXCEPTION")]


def test_an_outcome_is_told_after_its_commit(ear: Ear) -> None:
    seen: list[tuple[int, bool]] = []

    def look() -> None:  # through a connection of its own, which sees what is committed
        seen.append((Charge.objects.count(), connections["default"].in_atomic_block))
        connections.close_all()

    def receiver(**named: Any) -> None:
        assert not connections["default"].in_atomic_block
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()

    ear.on(signals.task_finished, receiver)
    Desk(charge).deliver()
    assert seen == [(1, False)]


def test_a_receiver_may_listen_to_one_handler(ear: Ear) -> None:
    def other(input: Any, ctx: TaskContext) -> None: ...

    heard: list[str] = []
    ear.on(signals.task_received, lambda context, **_: heard.append(context.token), sender=charge)
    announce.received(context("t1"), charge)
    announce.received(context("t2"), other)
    announce.received(context("t3"), None)
    assert heard == ["t1"]


def test_an_accepted_report_is_told_once_it_is_filed(ear: Ear) -> None:
    statuses: list[tuple[Any, str, str]] = []
    refused = ear.to(signals.result_refused)
    ear.on(
        signals.result_delivered, lambda sender, message, **_: statuses.append((sender, message.kind, stored().status))
    )
    relaying.World().relay.deliver(earn())
    assert statuses == [(OutboxMessage, "complete", "delivered")]
    assert refused == []


def test_acceptances_that_are_filed_together_are_told_one_by_one(ear: Ear) -> None:
    told: list[tuple[str, str]] = []
    ear.on(
        signals.result_delivered,
        lambda message, **_: told.append((message.token, stored(token=message.token).status)),
    )
    world = relaying.World(group_seconds=60)
    world.relay.deliver(earn("first"))  # is filed at once
    told.clear()
    world.relay.deliver(earn("t1"))
    world.relay.deliver(earn("t2"))
    assert told == []
    world.relay.filing.flush()
    assert told == [("t1", "delivered"), ("t2", "delivered")]


@pytest.mark.parametrize(
    ("reason", "superseded"), [("duplicate result; step already resolved", True), ("the moon is full", False)]
)
def test_a_report_that_is_not_accepted_is_told_as_refused(ear: Ear, reason: str, superseded: bool) -> None:
    heard, delivered = ear.to(signals.result_refused), ear.to(signals.result_delivered)
    world = relaying.World()
    world.transport.script("send", Receipt(accepted=False, reason=reason))
    world.relay.deliver(earn())
    assert [(each["reason"], each["is_superseded"]) for each in heard] == [(reason, superseded)]
    assert heard[0]["message"].pk == stored().pk
    assert delivered == []


def test_a_refused_report_is_told_without_secrets_and_before_the_failure_that_follows(ear: Ear) -> None:
    told: list[tuple[str, str]] = []
    ear.on(signals.result_refused, lambda message, reason, **_: told.append((message.kind, reason)))
    ear.on(signals.result_delivered, lambda message, **_: told.append((message.kind, stored(message.kind).status)))
    world = relaying.World()
    world.transport.script("send", refusal(413, "RESULT_TOO_LARGE", "SECRET"))
    world.relay.deliver(earn())
    assert told == [("complete", "413 RESULT_TOO_LARGE: ****"), ("fail", "delivered")]


def test_what_says_nothing_about_the_result_is_not_told(ear: Ear) -> None:
    heard = ear.to(signals.result_refused) + ear.to(signals.result_delivered)
    world = relaying.World()
    world.transport.script("send", refusal(401))
    world.relay.deliver(earn(failure=BIG))
    assert heard == []


def broken(**named: Any) -> None:
    raise ValueError("of a receiver")


def leaving(**named: Any) -> None:
    sys.exit(3)


@pytest.mark.parametrize("receiver", [broken, leaving])
def test_a_receiver_that_raises_changes_nothing(ear: Ear, caplog: pytest.LogCaptureFixture, receiver: Any) -> None:
    for signal in (signals.task_received, signals.task_finished, signals.result_delivered, signals.result_refused):
        ear.on(signal, receiver)
    announce.received(context(), None)
    message = Desk(charge).deliver()
    relaying.World().relay.deliver(message)
    announce.refused(message, "no")

    assert OutboxMessage.objects.get().status == "delivered"
    told = [each for each in caplog.records if each.message == "a receiver of a signal failed"]
    assert [(each.levelno, bool(each.exc_info)) for each in told] == [(logging.ERROR, True)] * 4


def test_a_receiver_leaves_neither_language_nor_transaction_behind(ear: Ear) -> None:
    def receiver(**named: Any) -> None:
        translation.activate("de")
        transaction.set_autocommit(False)
        Charge.objects.create(key="left open", amount=1, attempt=1)

    ear.on(signals.task_finished, receiver)
    announce.finished(context(), None, "complete", "")
    assert translation.get_language() == "en"
    assert connections["default"].get_autocommit()
    assert Charge.objects.count() == 0


def test_the_transaction_of_a_caller_stays_as_it_is(ear: Ear) -> None:
    ear.to(signals.task_finished)
    with transaction.atomic():
        Charge.objects.create(key="mine", amount=1, attempt=1)
        announce.finished(context(), None, "complete", "")
    assert Charge.objects.count() == 1


@pytest.mark.promise("D5")
def test_a_slow_receiver_keeps_the_message_or_leaves_it_to_who_has_it(ear: Ear) -> None:
    def receiver(context: TaskContext, **named: Any) -> None:
        threading.Event().wait(0.06)
        if context.token == "taken":
            OutboxMessage.objects.filter(token="taken").update(sender="another")

    ear.on(signals.task_finished, receiver)
    desk = Desk(charge)
    held = desk.deliver(token="held")
    assert (held.kind, outbox.renew(held)) == (Kind.COMPLETE, True)
    assert desk.deliver(token="taken", idempotency_key="e1/other") is Deferred.DROPPED


def test_nothing_is_computed_where_nobody_listens(monkeypatch) -> None:
    monkeypatch.setattr(announce, "_send", broken)
    message = Desk(charge).deliver()
    relaying.World().relay.deliver(message)
    announce.received(context(), None)
    announce.refused(message, "no")
    assert OutboxMessage.objects.get().status == "delivered"

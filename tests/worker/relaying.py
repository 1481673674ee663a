"""A relay over the recording binding, and messages for it."""

import json
from functools import partial
from typing import Any

import pytest
from django.db import transaction

from orbit_django import idempotency, outbox
from orbit_django.clock import FixedClock
from orbit_django.dialects import dialect_of
from orbit_django.models import OutboxMessage
from orbit_django.outbox import Origin
from orbit_django.payloads import encode_failure
from orbit_django.protocol import Failure, Kind
from orbit_django.testing.transport import RecordingTransport
from orbit_django.verdicts import Claim, Key
from orbit_django.worker.gate import DatabaseGate
from orbit_django.worker.relay import Relay, Sender
from tests.worker.words import TOKEN, assignment

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
            **{"group_seconds": 0, **options},
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

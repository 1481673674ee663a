"""Deliveries with odd values: each ends in a report of its own, on every database."""

import json
from dataclasses import asdict
from typing import Any

import pytest

from orbit_django.clock import SystemClock
from orbit_django.context import TaskContext
from orbit_django.exceptions import PayloadError
from orbit_django.models import IdempotencyRecord, OutboxMessage
from orbit_django.protocol import Assignment
from tests.ledger import Desk, assignment
from tests.testapp.models import Charge

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.databases, pytest.mark.promise("E7")]

SURROGATE = "\ud800"
ODD: dict[str, dict[str, Any]] = {
    "a token with odd characters": {"token": 'x"\\\n\x01\u2028\U0001f600'},
    "a long token": {"token": "t" * 100_000},
    "a long key": {"idempotency_key": "k" * 1_000_000},
    "a key of nothing": {"idempotency_key": ""},
    "a key that no text is": {"idempotency_key": "k\x00" + SURROGATE},
    "a long execution": {"execution_id": "e" * 100_000},
    "an execution that no text is": {"execution_id": "\x00" + SURROGATE, "workflow": "\x00" + SURROGATE},
    "a step that no text is": {"step_id": "\x00" + SURROGATE * 300},
    "a long step": {"step_id": "compensate:" + "s" * 100_000},
    "attempt 0": {"attempt": 0},
    "a negative attempt": {"attempt": -1},
    "a very negative attempt": {"attempt": -(10**30)},
    "the largest attempt": {"attempt": 2**63 - 1},
    "no time": {"timeout_ms": 0},
    "negative times": {"timeout_ms": -(10**30), "deadline_ms": -(10**30)},
    "endless times": {"timeout_ms": 2**63 - 1, "deadline_ms": 2**63 - 1},
    "a redelivery": {"redelivery": True, "token": "t" * 100_000, "attempt": 2**63 - 1},
    "an odd input": {"input": {SURROGATE: [SURROGATE, 1e308 * 10, 2**70, "\x00", None, True]}},
}


@pytest.mark.parametrize("is_atomic", [True, False])
@pytest.mark.parametrize("fields", ODD.values(), ids=ODD.keys())
def test_each_is_run_once_and_reported(fields: dict[str, Any], is_atomic: bool) -> None:
    def handler(input: Any, ctx: Any) -> dict[str, Any]:
        Charge.objects.create(key="k")
        return {}

    desk = Desk(handler, is_atomic=is_atomic)
    made = Assignment.from_wire(asdict(assignment({}, token="token-1")) | fields)
    context = TaskContext(made, worker_id="tester", clock=SystemClock())
    message = desk.executor.execute(made, context)

    assert isinstance(message, OutboxMessage)
    assert (message.kind, message.token, desk.runs) == ("complete", made.token, 1), message.body
    assert Charge.objects.count() == OutboxMessage.objects.count() == 1


@pytest.mark.parametrize("is_atomic", [True, False])
@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"workflow": None}, "workflow"),
        ({"idempotency_key": 5}, "idempotency_key"),
        ({"deadline_ms": "soon"}, "deadline_ms"),
        ({"task_name": None}, "task_name"),
        ({"contract_version": 2}, "contract_version"),
        ({"step_id": []}, "step_id"),
        ({"attempt": "first", "redelivery": True}, "attempt"),
    ],
)
def test_a_field_that_cannot_be_read_ends_the_step_and_nothing_runs(
    fields: dict[str, Any], name: str, is_atomic: bool
) -> None:
    desk = Desk(lambda input, ctx: {}, is_atomic=is_atomic)
    made = Assignment.from_wire(asdict(assignment({}, token="token-1")) | fields)
    message = desk.executor.execute(made, TaskContext(made, worker_id="tester", clock=SystemClock()))

    assert isinstance(message, OutboxMessage)
    body = json.loads(message.body)
    assert (body["token"], body["error_code"], body["retryable"]) == ("token-1", "INVALID_INPUT", False)
    assert body["error_message"].startswith(f"the {name} cannot be read: ")
    assert (desk.runs, IdempotencyRecord.objects.count()) == (0, 0)


@pytest.mark.parametrize("token", ["a\x00b", SURROGATE, "", None, 7])
def test_a_token_that_cannot_be_echoed_is_no_delivery(token: object) -> None:
    with pytest.raises(PayloadError, match="token"):
        Assignment.from_wire(asdict(assignment({})) | {"token": token})

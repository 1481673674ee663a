"""Outputs are held to the contract before the commit, where CONTRACTS names one."""

import pytest

from orbit_django import TaskError
from orbit_django.exceptions import ConfigurationError
from orbit_django.models import Effect, IdempotencyRecord
from tests.ledger import Desk, charge, sent
from tests.testapp.models import Charge

pytestmark = [pytest.mark.databases, pytest.mark.django_db(transaction=True), pytest.mark.promise("E8")]

CONTRACT = """
task "test.task" {
  version "1.0.0"
  output { receipt: String, cents: Int, share: Float }
}
"""
GOOD = {"receipt": "r-1", "cents": 450, "share": 0.5}
BY = "by the contract of test.task 1.0.0 in CONTRACTS"


@pytest.fixture
def settings_of(tmp_path):
    """Return settings whose CONTRACTS declares the task of these tests."""
    path = tmp_path / "charge.orbit"
    path.write_text(CONTRACT, encoding="utf-8")
    return {"contracts": (str(path),)}


def giving(output):
    return lambda input, ctx: charge(input, ctx) and output


@pytest.mark.parametrize("is_atomic", [True, False])
@pytest.mark.parametrize(
    ("output", "path", "said"),
    [
        ({**GOOD, "receipt": 7}, "$.receipt", "expected String, found Int"),
        ({**GOOD, "cents": "450"}, "$.cents", "expected Int, found String"),
        ({**GOOD, "cents": 4.5}, "$.cents", "expected Int, found Float"),
        ({**GOOD, "cents": True}, "$.cents", "expected Int, found Boolean"),
        ({**GOOD, "share": None}, "$.share", "expected Float, found null"),
        ({"receipt": "r-1", "share": 1}, "$.cents", "missing required field `cents` of type Int"),
    ],
)
def test_an_output_that_breaks_the_contract_fails_before_the_commit(settings_of, caplog, is_atomic, output, path, said):
    message = Desk(giving(output), settings=settings_of, is_atomic=is_atomic).deliver()
    body = sent(message)
    assert (body["error_code"], body["retryable"]) == ("INVALID_RESULT", False)
    assert body["error_message"] == f"the result: {path}: {said}, {BY}"
    assert body["details"] == {"path": path, "fields": {path: said}}
    assert Charge.objects.count() == (0 if is_atomic else 1)  # which only an atomic task can take back
    assert (message.record.status, message.record.output) == ("failed", None)
    told = next(record for record in caplog.records if record.message == "a task failed")
    assert (told.step, told.task, path in told.error, told.levelname) == ("step", "test.task", True, "ERROR")


def test_a_forgotten_return_is_named_with_every_field(settings_of):
    body = sent(Desk(giving(None), settings=settings_of).deliver())
    assert body["error_message"].endswith(f"{BY}; the handler returned None")
    assert list(body["details"]["fields"]) == ["$.receipt", "$.cents", "$.share"]
    assert Charge.objects.count() == 0


@pytest.mark.parametrize("output", [GOOD, {**GOOD, "cents": 450.0, "share": 1, "more": [None]}])
def test_an_output_that_keeps_it_is_a_success(settings_of, output):
    assert sent(Desk(giving(output), settings=settings_of).deliver())["output"] == output
    assert Charge.objects.count() == 1


def test_nothing_is_asked_of_a_version_that_is_not_declared(settings_of):
    assert sent(Desk(giving({}), version="1.1.0", settings=settings_of).deliver())["output"] == {}


def test_nothing_is_asked_without_contracts():
    assert sent(Desk(giving({})).deliver())["output"] == {}


def test_an_effect_is_kept_and_serves_the_handler_that_was_corrected(settings_of):
    calls = []

    def handler(input, ctx):
        receipt = ctx.effect("pay", lambda: calls.append(1) or "r-1")
        return {**GOOD, "receipt": receipt} if ctx.attempt > 1 else {"receipt": receipt}

    desk = Desk(handler, is_atomic=False, settings=settings_of)
    assert sent(desk.deliver())["error_code"] == "INVALID_RESULT"
    assert Effect.objects.get().status == "finished"
    assert sent(desk.deliver(attempt=2))["output"] == GOOD
    assert len(calls) == 1


def test_a_failure_of_the_handler_is_its_own(settings_of):
    def handler(input, ctx):
        raise TaskError("CARD_DECLINED")

    assert sent(Desk(handler, settings=settings_of).deliver())["error_code"] == "CARD_DECLINED"
    assert IdempotencyRecord.objects.get().status == "failed"


def test_a_file_that_cannot_be_read_is_a_mistake_at_the_start(tmp_path):
    with pytest.raises(ConfigurationError, match=r"gone\.orbit: cannot be read"):
        Desk(giving({}), settings={"contracts": (str(tmp_path / "gone.orbit"),)})

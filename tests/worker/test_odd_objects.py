"""Objects of a handler that raise when the worker looks at them: each is one failed attempt, with its report."""

import dataclasses
import json
from collections.abc import Callable
from typing import Any

import pytest

from orbit_django import TaskError
from orbit_django.exceptions import AbandonedError
from orbit_django.models import Effect
from orbit_django.worker.delivery import Deferred
from tests.ledger import Desk, charge, sent
from tests.testapp.models import Charge

pytestmark = [pytest.mark.databases, pytest.mark.django_db(transaction=True)]

KINDS = [ZeroDivisionError, SystemExit]


def delivered(desk: Desk, **fields: Any) -> Any:
    """Put one delivery through; what gets out of the executor fails the test by its name, since nobody can show it."""
    try:
        return desk.deliver(**fields)
    except BaseException as error:  # noqa: BLE001  (the point of these tests)
        kind = type(error).__name__
    pytest.fail(f"the delivery ended in {kind}")


def mute(error: type[BaseException], kind: type[BaseException] = Exception) -> BaseException:
    """Return an exception that raises another one when it is to be shown."""

    class MuteError(kind):  # type: ignore[misc,valid-type]  # the kind is chosen by each test
        def __str__(self) -> str:
            raise error

        __repr__ = __str__

    return MuteError()


def members(error: type[BaseException]) -> dict[str, int]:
    class Members(dict[str, int]):
        def items(self) -> Any:
            raise error

    return Members(a=1)


def listed(error: type[BaseException]) -> list[int]:
    class Listed(list[int]):
        def __iter__(self) -> Any:
            raise error

    return Listed([1])


def record(error: type[BaseException]) -> Any:
    @dataclasses.dataclass
    class Record:
        a: int = 1

        def __getattribute__(self, name: str) -> Any:
            if name == "a":
                raise error
            return super().__getattribute__(name)

    return Record()


def pretender(error: type[BaseException]) -> Any:
    class Pretender:
        @property
        def __class__(self) -> Any:
            raise error

        def __repr__(self) -> str:
            raise error

    return Pretender()


def falling(value: Any) -> Callable[..., Any]:
    """Return a handler that writes a row, and then raises or returns the value."""

    def handler(input: Any, ctx: Any) -> Any:
        charge(input, ctx)
        if isinstance(value, BaseException):
            raise value
        return value

    return handler


@pytest.mark.promise("W6", "E7")
@pytest.mark.parametrize("is_atomic", [True, False])
@pytest.mark.parametrize("error", KINDS)
def test_an_exception_that_cannot_be_shown_is_one_failed_attempt(error, is_atomic):
    desk = Desk(falling(mute(error)), is_atomic=is_atomic)
    body = sent(delivered(desk))

    assert (body["error_code"], body["error_message"], body["retryable"]) == ("UNHANDLED_EXCEPTION", "MuteError", True)
    assert "in handler" in body["details"]["traceback"]
    assert (desk.runs, Charge.objects.count()) == (1, 0 if is_atomic else 1)


@pytest.mark.promise("E8")
@pytest.mark.parametrize("made", [members, listed, record, pretender])
def test_a_result_that_raises_is_an_invalid_one(made):
    body = sent(delivered(Desk(falling({"deep": [made(ZeroDivisionError)]}))))

    assert (body["error_code"], body["details"]["path"], body["retryable"]) == ("INVALID_RESULT", "$.deep[0]", False)
    assert "ZeroDivisionError" in body["error_message"]
    assert Charge.objects.count() == 0


@pytest.mark.promise("W6", "E7")
@pytest.mark.parametrize("is_atomic", [True, False])
@pytest.mark.parametrize("error", [SystemExit, GeneratorExit])
@pytest.mark.parametrize("made", [members, listed, record, pretender])
def test_a_result_that_exits_is_one_failed_attempt(made, error, is_atomic):
    desk = Desk(falling({"deep": [made(error)]}), is_atomic=is_atomic)
    body = sent(delivered(desk))

    assert (body["error_code"], body["details"]["type"]) == ("UNHANDLED_EXCEPTION", error.__name__)
    assert (desk.runs, Charge.objects.count()) == (1, 0 if is_atomic else 1)


@pytest.mark.promise("W6", "E7")
@pytest.mark.parametrize("error", KINDS)
@pytest.mark.parametrize("made", [members, record, pretender, mute])
def test_details_that_raise_are_shown_by_their_type(made, error):
    body = sent(delivered(Desk(falling(TaskError("DECLINED", "no", details=made(error))))))

    assert (body["error_code"], body["error_message"]) == ("DECLINED", "no")
    assert list(body["details"]) == ["text"]
    assert Charge.objects.count() == 0


@pytest.mark.promise("W6", "E7")
@pytest.mark.parametrize("error", KINDS)
def test_fields_of_a_task_error_that_raise_are_one_failed_attempt(error):
    odd: Any = mute(error)
    for number, raised in enumerate(
        [TaskError(odd, "x"), TaskError("X", odd), TaskError("X", retryable=Truthless(error))]
    ):
        body = sent(delivered(Desk(falling(raised)), idempotency_key=str(number)))
        assert body["error_code"] in ("X", "UNHANDLED_EXCEPTION")


class Truthless:
    """Neither true nor false."""

    def __init__(self, error: type[BaseException]) -> None:
        self.error = error

    def __bool__(self) -> bool:
        raise self.error


@pytest.mark.promise("W6", "E7")
@pytest.mark.parametrize("error", KINDS)
def test_an_exception_without_truth_is_reported_as_itself(error):
    class OddError(Exception):
        def __bool__(self) -> bool:
            raise error

    assert sent(delivered(Desk(falling(OddError("told")))))["error_message"] == "told"


@pytest.mark.promise("E7")
def test_an_empty_exception_is_reported_as_itself():
    class EmptyError(Exception):
        def __len__(self) -> int:
            return 0

    assert sent(delivered(Desk(falling(EmptyError("told")))))["details"]["type"].endswith("EmptyError")


@pytest.mark.promise("E7")
@pytest.mark.parametrize("error", KINDS)
def test_a_fault_of_ours_is_reported_whatever_it_is(error, monkeypatch):
    desk = Desk(charge)
    monkeypatch.setattr(desk.executor, "run", falling_apart(error))

    assert sent(delivered(desk))["error_code"] == "UNHANDLED_EXCEPTION"


def falling_apart(error: type[BaseException]) -> Callable[..., Any]:
    def run(*_: Any) -> Any:
        raise error

    return run


@pytest.mark.promise("W5")
@pytest.mark.parametrize("made", [members, record, pretender])
def test_a_worker_that_must_end_reports_nothing_even_then(made):
    assert delivered(Desk(falling({"a": made(AbandonedError)}))) is Deferred.DROPPED
    assert delivered(Desk(falling(TaskError("X", details=made(AbandonedError))))) is Deferred.DROPPED
    assert delivered(Desk(falling(mute(AbandonedError)))) is Deferred.DROPPED


def open_effect(function: Callable[..., Any], **options: Any) -> Any:
    return Desk(lambda input, ctx: {"a": ctx.effect("pay", function, **options)}, is_atomic=False)


@pytest.mark.promise("E10")
@pytest.mark.parametrize("error", KINDS)
def test_an_effect_whose_exception_cannot_be_shown_is_uncertain(error):
    body = sent(delivered(open_effect(falling_apart(mute(error)))))

    assert (body["error_code"], body["details"]["error"]) == ("EFFECT_UNCERTAIN", "MuteError: MuteError")
    assert Effect.objects.get().status == "uncertain"


@pytest.mark.promise("E10")
@pytest.mark.parametrize("error", KINDS)
@pytest.mark.parametrize("made", [members, listed, record, pretender])
def test_an_effect_whose_result_raises_is_uncertain(made, error):
    body = sent(delivered(open_effect(lambda: made(error))))

    assert (body["error_code"], Effect.objects.get().status) == ("EFFECT_UNCERTAIN", "uncertain")
    assert error.__name__ in json.dumps(body)


@pytest.mark.promise("E10")
@pytest.mark.parametrize("error", KINDS)
@pytest.mark.parametrize("is_mute", [True, False])
@pytest.mark.parametrize("base", [Exception, BaseException])
def test_a_look_for_an_effect_that_raises_leaves_it_open(error, is_mute, base):
    desk = open_effect(falling_apart(ValueError), find=falling_apart(mute(error, base) if is_mute else error))
    delivered(desk)
    body = sent(delivered(desk, attempt=2))

    assert body["error_code"] == "EFFECT_UNCERTAIN"
    assert "looking for it failed" in body["error_message"]
    assert Effect.objects.get().status == "started"


@pytest.mark.promise("E10", "W5")
def test_a_look_that_was_told_to_end_reports_nothing():
    desk = open_effect(falling_apart(ValueError), find=falling_apart(AbandonedError))
    delivered(desk)

    assert delivered(desk, attempt=2) is Deferred.DROPPED
    assert Effect.objects.get().status == "started"

import asyncio
from typing import Any

import pytest

from orbit_django.clock import FixedClock
from orbit_django.context import CancelReason, TaskContext
from orbit_django.exceptions import AbandonedError, TaskCancelled, TaskError
from orbit_django.protocol import Failure
from tests.worker.calling import Line, failing, raising
from tests.worker.words import context


def test_a_task_error_is_reported_as_it_is() -> None:
    error = TaskError("CARD_DECLINED", "no money", retryable=False, details={"left": [1, {"a": None}]})

    assert failing(raising(error)) == Failure("CARD_DECLINED", "no money", False, {"left": [1, {"a": None}]})
    assert failing(raising(TaskError("BUSY"))) == Failure("BUSY", "", True, None)


@pytest.mark.parametrize("code", ["", "  ", None])
def test_a_task_error_without_a_code_gets_one(code: Any) -> None:
    assert failing(raising(TaskError(code, "text"))).code == "UNHANDLED_EXCEPTION"


@pytest.mark.promise("W6")
@pytest.mark.parametrize(
    "error",
    [
        ValueError("bad"),
        SystemExit(3),
        KeyboardInterrupt(),
        GeneratorExit("bad"),
        StopIteration(),
        RecursionError("bad"),
        asyncio.CancelledError(),
        BaseException("bad"),
        ExceptionGroup("bad", [ValueError()]),
    ],
    ids=repr,
)
def test_every_exception_is_one_failed_attempt(error: BaseException) -> None:
    failure = failing(raising(error))

    assert (failure.code, failure.retryable) == ("UNHANDLED_EXCEPTION", True)
    assert failure.message in (str(error), type(error).__name__)
    assert failure.message != ""
    assert failure.details["type"] == type(error).__name__
    assert "in handler" in failure.details["traceback"]


@pytest.mark.promise("E10")
def test_what_an_atomic_task_does_not_have_is_no_better_the_next_time() -> None:
    failure = failing(lambda input, ctx: ctx.effect("mail", print))

    assert (failure.code, failure.retryable) == ("UNHANDLED_EXCEPTION", False)
    assert failure.message.startswith("ctx.effect needs a task with atomic=False: ")


def test_an_exception_that_cannot_be_shown_is_still_one_failed_attempt() -> None:
    class MuteError(Exception):
        def __str__(self) -> str:
            raise ValueError("no text")

    failure = failing(raising(MuteError()))
    assert (failure.code, failure.message) == ("UNHANDLED_EXCEPTION", "MuteError")


@pytest.mark.promise("W4")
@pytest.mark.parametrize("reason", [CancelReason.RUNTIME, CancelReason.DEADLINE])
def test_a_handler_that_stops_when_cancelled_is_reported(reason: CancelReason) -> None:
    seen = context()
    seen.cancelled.cancel(reason)
    failure = failing(lambda value, ctx: ctx.raise_if_cancelled(), seen)

    assert (failure.code, failure.retryable) == ("CANCELLED", True)
    assert str(reason) in failure.message


@pytest.mark.promise("W4")
def test_the_deadline_cancels_by_itself() -> None:
    clock = FixedClock()
    seen = context(clock=clock, timeout_ms=1_000)

    def handler(value: Any, ctx: TaskContext) -> None:
        ctx.raise_if_cancelled()
        clock.advance(1)
        ctx.raise_if_cancelled()

    assert failing(handler, seen).code == "CANCELLED"


@pytest.mark.promise("W5")
def test_a_handler_that_stops_because_the_process_must_end_is_not_reported() -> None:
    seen = context()
    seen.cancelled.cancel(CancelReason.SHUTDOWN)
    with pytest.raises(AbandonedError):
        failing(lambda value, ctx: ctx.raise_if_cancelled(), seen)


@pytest.mark.promise("W5")
def test_another_error_is_reported_even_then() -> None:
    seen = context()
    seen.cancelled.cancel(CancelReason.SHUTDOWN)

    assert failing(raising(TaskError("BUSY")), seen).code == "BUSY"


def test_a_cancellation_that_nobody_asked_for_is_an_ordinary_error() -> None:
    assert failing(raising(TaskCancelled("on its own"))).code == "UNHANDLED_EXCEPTION"


@pytest.mark.promise("W9")
def test_secrets_are_taken_out_of_everything_that_is_reported() -> None:
    def redact(text: str) -> str:
        return text.replace("SECRET", "****")

    details = {"list": ["a SECRET", ("SECRET",)], "deep": {"x": "SECRET"}, "number": 1}
    declared = failing(raising(TaskError("BUSY", "the SECRET", details=details)), redact=redact)
    unhandled = failing(raising(ValueError("the SECRET")), redact=redact)

    assert declared.message == "the ****"
    assert declared.details == {"list": ["a ****", ["****"]], "deep": {"x": "****"}, "number": 1}
    assert "SECRET" not in str(unhandled)
    assert "SECRET" not in str(unhandled.details)


@pytest.mark.promise("W9")
@pytest.mark.parametrize(
    ("details", "shown"),
    [
        ({"SECRET": 1}, {"****": 1}),
        (Line("SECRET"), {"sku": "****", "count": 1}),
        ({"error": ValueError("SECRET")}, {"text": "{'error': ValueError('****')}"}),
        ({"deep": {1: "SECRET"}}, {"text": "{'deep': {1: '****'}}"}),
    ],
)
def test_secrets_are_found_wherever_details_hide_them(details: Any, shown: Any) -> None:
    failure = failing(raising(TaskError("BUSY", details=details)), redact=lambda text: text.replace("SECRET", "****"))

    assert failure.details == shown


@pytest.mark.promise("E7")
def test_details_that_cannot_be_shown_are_no_reason_not_to_report() -> None:
    class Mute:
        def __repr__(self) -> str:
            raise ValueError("no text")

    endless: dict[str, Any] = {}
    endless["again"] = endless

    assert failing(raising(TaskError("BUSY", details=endless))).details == {"text": "{'again': {...}}"}
    assert failing(raising(TaskError("BUSY", details=Mute()))).details == {"text": "Mute"}

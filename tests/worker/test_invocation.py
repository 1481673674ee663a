import asyncio
import contextvars
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NotRequired, TypedDict
from zoneinfo import ZoneInfo

import pytest
from django.db import connection, transaction
from django.utils import timezone, translation

from orbit_django.clock import FixedClock
from orbit_django.context import CancelReason, TaskContext
from orbit_django.exceptions import TaskCancelled, TaskError
from orbit_django.protocol import Failure
from orbit_django.tasks import Task
from orbit_django.worker.invocation import AbandonedError, HandlerError, encode, failure_of, invoke
from tests.testapp.models import Charge
from tests.worker.words import assignment, context, task

NAME: contextvars.ContextVar[str] = contextvars.ContextVar("NAME", default="nobody")


@dataclass
class Line:
    sku: str
    count: int = 1


@dataclass
class Order:
    order: str
    lines: list[Line]


class Loose(TypedDict):
    order: str
    note: NotRequired[str]


class Model:
    """What a pydantic model offers."""

    def __init__(self, **fields: Any) -> None:
        self.fields = fields

    @classmethod
    def model_validate(cls, value: Any) -> "Model":
        if "order" not in value:
            raise ValueError("order is required")
        return cls(**value)

    def model_dump(self, mode: str, **options: bool) -> dict[str, Any]:
        return self.fields


def call(served: Task, given: Any = None, seen: TaskContext | None = None) -> Any:
    return invoke(served, assignment(input=given), seen or context(), contextvars.copy_context())


def same(text: str) -> str:
    return text


def failing(function: Callable[..., Any], seen: TaskContext | None = None, **fields: Any) -> Failure:
    """Run a handler that fails, and return the failure that reports it."""
    given = fields.pop("given", None)
    redact = fields.pop("redact", same)
    seen = seen or context()
    served = task(function, **fields)
    with pytest.raises(HandlerError) as raised:
        encode(served, call(served, given, seen), "token-1", 2_000)
    assert raised.value.__cause__ is not None
    return failure_of(raised.value.__cause__, seen, redact)


def raising(error: BaseException) -> Callable[[Any], None]:
    def handler(given: Any) -> None:
        raise error

    return handler


def test_the_input_is_the_json_value_and_the_context_is_optional() -> None:
    given, seen = {"n": 2**53 + 1, "t": "größe", "deep": [[None, 1.5, True]]}, context()

    assert call(task(lambda value: value), given) is given
    assert call(task(lambda value, ctx: (value, ctx)), given, seen) == (given, seen)


@pytest.mark.parametrize("given", [None, [], "text", 7, False])
def test_any_json_value_is_an_input(given: Any) -> None:
    assert call(task(lambda value: {"given": value}), given) == {"given": given}


def test_a_typed_input_arrives_as_its_type() -> None:
    served = task(lambda value: value, input_type=Order)

    assert call(served, {"order": "o-1", "lines": [{"sku": "a"}]}) == Order("o-1", [Line("a", 1)])
    assert call(task(lambda value: value, input_type=Loose), {"order": "o-1"}) == {"order": "o-1"}
    assert call(task(lambda value: value.fields, input_type=Model), {"order": "o-1"}) == {"order": "o-1"}


def test_an_input_of_the_wrong_shape_fails_for_good_and_names_every_field() -> None:
    ran: list[int] = []
    failure = failing(ran.append, given={"lines": [{"count": "two"}]}, input_type=Order)

    assert (failure.code, failure.retryable, ran) == ("INVALID_INPUT", False, [])
    assert set(failure.details["fields"]) == {"$.order", "$.lines[0].sku", "$.lines[0].count"}
    assert failure.details["path"] in failure.details["fields"]


def test_an_input_that_a_model_refuses_fails_for_good() -> None:
    failure = failing(lambda value: None, given={}, input_type=Model)

    assert (failure.code, failure.details["fields"]) == ("INVALID_INPUT", {"$": "order is required"})


def test_a_payload_error_of_the_handler_itself_is_not_a_bad_input() -> None:
    from orbit_django.exceptions import PayloadError

    assert failing(raising(PayloadError("$.x", "is wrong"))).code == "UNHANDLED_EXCEPTION"


@pytest.mark.parametrize(
    ("result", "text"),
    [
        (None, "{}"),
        ({}, "{}"),
        ({"a": [1, None, "ü"]}, '{"a":[1,null,"\\u00fc"]}'),
        (Line("a"), '{"sku":"a","count":1}'),
        (Model(order="o-1"), '{"order":"o-1"}'),
    ],
)
def test_a_result_is_an_object(result: Any, text: str) -> None:
    assert encode(task(lambda value: result), result, "token-1", 2_000) == text


@pytest.mark.promise("E8")
@pytest.mark.parametrize(
    ("result", "path"),
    [
        ([], "$"),
        ("text", "$"),
        (7, "$"),
        (True, "$"),
        ({"a": {"b": [float("nan")]}}, "$.a.b[0]"),
        ({"a": {1: 2}}, "$.a"),
        ({"a": object()}, "$.a"),
        ({"a": "\ud800"}, "$.a"),
    ],
)
def test_a_result_that_is_no_json_object_fails_for_good_and_names_the_place(result: Any, path: str) -> None:
    failure = failing(lambda value: result)

    assert (failure.code, failure.retryable, failure.details["path"]) == ("INVALID_RESULT", False, path)


@pytest.mark.promise("E8")
def test_a_result_that_is_not_what_was_declared_fails_for_good() -> None:
    failure = failing(lambda value: {"sku": 7}, output_type=Line)

    assert (failure.code, failure.details["path"]) == ("INVALID_RESULT", "$.sku")
    assert failing(lambda value: None, output_type=Line).code == "INVALID_RESULT"


@pytest.mark.promise("E8")
def test_a_result_that_contains_itself_fails_for_good() -> None:
    result: dict[str, Any] = {}
    result["a"] = result

    assert failing(lambda value: result).code == "INVALID_RESULT"


@pytest.mark.promise("E8")
def test_a_result_that_is_too_large_fails_for_good_with_its_size() -> None:
    failure = failing(lambda value: {"a": "x" * 3_000})

    assert (failure.code, failure.retryable) == ("RESULT_TOO_LARGE", False)
    assert failure.details == {"size": 3_000 + len('{"token":"token-1","output":{"a":""}}'), "limit": 2_000}


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


@pytest.mark.promise("W6")
def test_nothing_of_a_handler_is_left_in_its_thread() -> None:
    def handler(value: Any) -> None:
        NAME.set("the handler")
        translation.activate("de")
        timezone.activate(ZoneInfo("Asia/Tokyo"))

    before = translation.get_language(), timezone.get_current_timezone_name()
    call(task(handler))

    assert NAME.get() == "nobody"
    assert (translation.get_language(), timezone.get_current_timezone_name()) == before


@pytest.mark.promise("W6")
def test_nothing_of_a_handler_that_fails_is_left_either() -> None:
    def handler(value: Any) -> None:
        NAME.set("the handler")
        translation.activate("de")
        raise SystemExit

    failing(handler)
    assert (NAME.get(), translation.get_language()) == ("nobody", "en")


@pytest.mark.promise("W6")
def test_a_coroutine_runs_to_its_end_in_a_loop_of_its_own() -> None:
    loops: list[asyncio.AbstractEventLoop] = []

    async def handler(value: Any, ctx: TaskContext) -> dict[str, Any]:
        NAME.set("the handler")
        loops.append(asyncio.get_running_loop())
        await asyncio.sleep(0)
        return {"step": ctx.step_id}

    assert [call(task(handler)), call(task(handler))] == [{"step": "charge"}] * 2
    assert loops[0] is not loops[1]
    assert NAME.get() == "nobody"


@pytest.mark.promise("W6")
@pytest.mark.parametrize("error", [ValueError("bad"), SystemExit(3), asyncio.CancelledError(), TaskError("BUSY")])
def test_an_error_of_a_coroutine_is_one_failed_attempt(error: BaseException) -> None:
    async def handler(value: Any) -> None:
        await asyncio.sleep(0)
        raise error

    assert failing(handler).code == ("BUSY" if isinstance(error, TaskError) else "UNHANDLED_EXCEPTION")


@pytest.mark.promise("W6")
@pytest.mark.databases
@pytest.mark.django_db(transaction=True)
def test_the_orm_of_a_coroutine_works_in_the_transaction_of_its_thread() -> None:
    async def handler(value: Any) -> dict[str, Any]:
        await Charge.objects.acreate(key="k")
        return {"count": await Charge.objects.acount(), "thread": threading.get_ident()}

    with transaction.atomic():
        found = call(task(handler))
        assert (found["count"], Charge.objects.count()) == (1, 1)
        assert connection.in_atomic_block
        transaction.set_rollback(True)
    assert Charge.objects.count() == 0

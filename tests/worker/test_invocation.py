import asyncio
import contextvars
import threading
from dataclasses import dataclass
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.db import connection, transaction
from django.utils import timezone, translation

from orbit_django.context import TaskContext
from orbit_django.exceptions import TaskError
from orbit_django.worker.invocation import encode
from tests.testapp.models import Charge
from tests.worker.calling import Line, Loose, Model, Order, call, failing, raising
from tests.worker.words import context, task

NAME: contextvars.ContextVar[str] = contextvars.ContextVar("NAME", default="nobody")


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


@dataclass
class Remark:
    text: str = ""


@pytest.mark.promise("E8")
def test_a_result_that_is_not_what_was_declared_fails_for_good() -> None:
    failure = failing(lambda value: {"sku": 7}, output_type=Line)

    assert (failure.code, failure.details["path"]) == ("INVALID_RESULT", "$.sku")
    assert failing(lambda value: None, output_type=Line).code == "INVALID_RESULT"
    assert failing(lambda value: None, output_type=Remark).code == "INVALID_RESULT", "none is not the empty object"


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
@pytest.mark.django_db
def test_a_synchronous_query_of_a_coroutine_is_one_failed_attempt_with_djangos_words() -> None:
    async def handler(value: Any) -> dict[str, Any]:
        return {"count": Charge.objects.count()}

    failure = failing(handler)
    assert failure.code == "UNHANDLED_EXCEPTION"
    assert "You cannot call this from an async context" in failure.message


@pytest.mark.promise("W6")
def test_what_a_coroutine_left_running_ends_with_its_loop() -> None:
    left: list[asyncio.Task[None]] = []

    async def handler(value: Any) -> dict[str, Any]:
        left.append(asyncio.get_running_loop().create_task(asyncio.sleep(600)))
        await asyncio.sleep(0)
        return {}

    assert call(task(handler)) == {}
    assert left[0].cancelled()


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

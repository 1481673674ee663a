"""What is reported of a task: results, failures, and what stands in for those that cannot be sent."""

import asyncio
import datetime
import decimal
import json
import math
import threading
import uuid
from dataclasses import dataclass

import pytest
from django.utils.translation import gettext_lazy

from orbit_django import TaskError
from tests.conformance.observer import FIRST
from tests.conformance.scene import Scene
from tests.conformance.table import check

NO_OBJECTS = [[1], "text", 7, 1.5, True]
NO_JSON = {
    "nan": lambda: {"rate": math.nan},
    "infinite": lambda: {"a": [{"b": math.inf}]},
    "set": lambda: {"members": {1, 2}},
    "object": lambda: {"thing": object()},
    "bytes": lambda: {"raw": b"x"},
    "key": lambda: {1: "one"},
    "surrogate": lambda: {"text": "\ud800"},
}
PATHS = {
    "nan": "rate",
    "infinite": "b",
    "set": "members",
    "object": "thing",
    "bytes": "raw",
    "key": "1",
    "surrogate": "text",
}


@dataclass
class Receipt:
    number: int


@dataclass
class Order:
    amount: int
    currency: str


def failure(scene: Scene, token: str = FIRST) -> dict:
    """Return what a failure said; its only report must be one."""
    report = scene.report(token)
    assert [call.name for call in scene.reports(token)] == ["fail"]
    return report.fields


@check("A result is one complete, with the delivery's token and the output as it is", "O070", "O090")
def test_result(scene: Scene) -> None:
    scene.deliver()
    scene.work(lambda input: {"a": 1, "b": [None, {"c": "ü"}]})
    report = scene.report()
    assert report.name == "complete"
    assert report.fields == {"token": "t-1", "output": {"a": 1, "b": [None, {"c": "ü"}]}}
    assert len(scene.reports()) == 1


@check("An empty result, and none, is an empty object", "O090", "O305")
def test_empty(scene: Scene) -> None:
    scene.deliver("empty", input={})
    scene.deliver("none", input=None)
    scene.work(lambda input: input)
    assert scene.report("empty").fields == {"token": "empty", "output": {}}
    assert scene.report("none").fields == {"token": "none", "output": {}}


@check("Nothing, where an output was declared, is INVALID_RESULT", "O305")
def test_none_where_more_was_promised(scene: Scene) -> None:
    def pay(input) -> Receipt:
        return None

    scene.deliver()
    scene.work(pay)
    assert failure(scene)["error_code"] == "INVALID_RESULT"


@check("A result that is no object is INVALID_RESULT, not retryable, and never a complete", "O157", "O186")
def test_no_object(scene: Scene) -> None:
    for number, value in enumerate(NO_OBJECTS):
        scene.deliver(f"t-{number}", input=value)
    scene.work(lambda input: input)
    for number in range(len(NO_OBJECTS)):
        said = failure(scene, f"t-{number}")
        assert (said["error_code"], said["retryable"]) == ("INVALID_RESULT", False)


@check("A result that JSON cannot say is INVALID_RESULT and names the place; what is sent is JSON", "O017", "O306")
def test_no_json(scene: Scene) -> None:
    for kind in NO_JSON:
        scene.deliver(kind, input=kind)
    scene.work(lambda input: NO_JSON[input]())
    for kind in NO_JSON:
        said = failure(scene, kind)
        assert (said["error_code"], said["retryable"]) == ("INVALID_RESULT", False), kind
        assert PATHS[kind] in said["error_message"], kind


@check("Numbers, times and texts of Django's own are sent as its JSON encoder writes them", "O306")
def test_django_values(scene: Scene) -> None:
    moment = datetime.datetime(2026, 11, 15, 12, 30, tzinfo=datetime.UTC)
    output = {
        "money": decimal.Decimal("12.50"),
        "moment": moment,
        "day": moment.date(),
        "id": uuid.UUID(int=5),
        "lazy": gettext_lazy("Yes"),
    }
    scene.deliver()
    scene.work(lambda input: output)
    assert scene.report().fields["output"] == {
        "money": "12.50",
        "moment": "2026-11-15T12:30:00Z",
        "day": "2026-11-15",
        "id": "00000000-0000-0000-0000-000000000005",
        "lazy": "Yes",
    }


@check("A task error is sent with its code, text, verdict and details", "O100", "O159", "O185")
def test_task_error(scene: Scene) -> None:
    details = {"depth": 42, "why": ["a", None]}

    def pay(input):
        raise TaskError("CARD_DECLINED", "no money", retryable=False, details=details)

    scene.deliver()
    scene.work(pay)
    expected = {"token": "t-1", "error_code": "CARD_DECLINED", "error_message": "no money", "retryable": False}
    assert failure(scene) == expected | {"details": details}


@check(
    "Whether an error is retryable is always said, and true unless the handler says otherwise", "O100", "O166", "O185"
)
def test_retryable(scene: Scene) -> None:
    def pay(input):
        raise TaskError("BUSY")

    scene.deliver()
    scene.work(pay)
    said = failure(scene)
    assert said["retryable"] is True
    assert said["error_code"] == "BUSY"
    assert said.get("error_message", "") == ""


@check("Any other exception is UNHANDLED_EXCEPTION, retryable, with its text and where it was raised", "O159", "O186")
@pytest.mark.promise("W6")
def test_exception(scene: Scene) -> None:
    def pay(input):
        raise (SystemExit if input == "exit" else LookupError)(f"not there: {input}")

    for kind in ("lookup", "exit"):
        scene.deliver(f"t-{kind}", input=kind)
    scene.work(pay)
    for kind in ("lookup", "exit"):
        said = failure(scene, f"t-{kind}")
        assert (said["error_code"], said["retryable"]) == ("UNHANDLED_EXCEPTION", True)
        assert said["error_message"] == f"not there: {kind}"
        assert "in pay" in json.dumps(said["details"])


@check("An error code that is empty or blank is never sent", "O332")
def test_empty_code(scene: Scene) -> None:
    def pay(input):
        raise TaskError(input, "said", retryable=False)

    for number, code in enumerate(["", "  ", None]):
        scene.deliver(f"t-{number}", input=code)
    scene.work(pay)
    for number in range(3):
        said = failure(scene, f"t-{number}")
        assert (said["error_code"], said["retryable"]) == ("UNHANDLED_EXCEPTION", False)


@check("A task that was not announced is UNKNOWN_TASK, retryable", "O186")
def test_unknown_task(scene: Scene) -> None:
    scene.deliver("name", task_name="shop.ship")
    scene.deliver("version", contract_version="1.0.1")
    scene.work(lambda input: {})
    for token in ("name", "version"):
        said = failure(scene, token)
        assert (said["error_code"], said["retryable"]) == ("UNKNOWN_TASK", True)


@check(
    "An input of the wrong shape for a typed handler is INVALID_INPUT, not retryable, and the handler is not called",
    "O186",
)
def test_invalid_input(scene: Scene) -> None:
    seen = []

    def pay(input: Order):
        seen.append(input)
        return {}

    scene.deliver("bad", input={"amount": "many"})
    scene.deliver("good", input={"amount": 5, "currency": "EUR"})
    scene.work(pay)
    said = failure(scene, "bad")
    assert (said["error_code"], said["retryable"]) == ("INVALID_INPUT", False)
    assert "amount" in json.dumps(said["details"])
    assert scene.report("good").name == "complete"
    assert seen == [Order(5, "EUR")]


@check("Handlers that are coroutines run to their end, each in an event loop of its own", "O181")
def test_async(scene: Scene) -> None:
    loops, both = [], threading.Barrier(2, timeout=15)

    async def pay(input):
        loops.append(asyncio.get_running_loop())
        await asyncio.sleep(0)
        both.wait()
        return {"ran": True}

    scene.handle(pay, atomic=False)
    scene.deliver("one")
    scene.deliver("two")
    scene.work()
    for token in ("one", "two"):
        assert scene.report(token).fields["output"] == {"ran": True}
    assert loops[0] is not loops[1]


@check("A result above the size limit is RESULT_TOO_LARGE, naming size and limit; it is never sent", "O014", "O307")
def test_too_large(scene: Scene) -> None:
    scene.deliver("large", input=9_000)
    scene.deliver("fits", input=900)
    scene.work(lambda input: {"text": "x" * input}, max_body_bytes=8_192)
    said = failure(scene, "large")
    assert (said["error_code"], said["retryable"]) == ("RESULT_TOO_LARGE", False)
    assert "8192" in said["error_message"]
    assert "9038" in said["error_message"]
    assert scene.report("fits").name == "complete"


@check("The texts of a failure are cut so that its report fits the limit", "O307")
def test_large_failure(scene: Scene) -> None:
    def pay(input):
        raise TaskError("LARGE", "m" * 5_000, details={"more": "d" * 50_000})

    scene.deliver()
    scene.work(pay, max_body_bytes=2_048)
    report = scene.report()
    assert report.fields["error_code"] == "LARGE"
    assert len(json.dumps(report.fields)) <= 2_048

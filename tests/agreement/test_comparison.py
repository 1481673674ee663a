from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NotRequired, TypedDict

import pydantic
import pytest

from orbit_django.agreement import compare
from orbit_django.contracts import read
from orbit_django.tasks import Registry, Task, registry, task

PAY = """
task "shop.pay" {
  version "1.0.0"
  input { order: String, amount: Int, rate: Float }
  output { charge: String, amount: Int, rate: Float }
}
"""


@dataclass
class Good:
    order: str
    amount: int
    rate: float


@dataclass
class Paid:
    charge: str
    amount: int
    rate: float


class Loose(TypedDict):
    charge: str
    amount: NotRequired[int]
    rate: float


@pytest.fixture(autouse=True)
def found(monkeypatch) -> Registry:
    monkeypatch.setattr(registry, "_tasks", {})
    monkeypatch.setattr(registry, "faults", [])
    return registry


def differences(text: str = PAY, runtime: str = "python") -> list[tuple[str, str]]:
    assert registry.faults == []
    return [(each.code, each.text) for each in compare(registry, read(text, "pay.orbit"), runtime)]


def serve(given: Any = dict, result: Any = dict, name: str = "shop.pay", version: str = "1.0.0") -> Task:
    def pay(input, ctx): ...

    pay.__annotations__ = {"input": given, "return": result}
    task(name, version=version)(pay)
    return next(each for each in registry if (each.contract.contract_version) == version)


def only(text: str = PAY) -> tuple[str, str]:
    """Return code and words of the one difference, without the place of the handler."""
    ((code, told),) = differences(text)
    return code, told.partition(": ")[2]


@pytest.mark.parametrize(("given", "result"), [(Good, Paid), (dict, dict), (Good | None, Paid)])
def test_what_agrees_makes_no_words(given: Any, result: Any) -> None:
    serve(given, result)
    assert differences() == []


def test_nothing_is_compared_where_nothing_is_declared() -> None:
    serve(name="shop.other")
    assert differences("") == []


def test_w003_a_handler_without_a_contract() -> None:
    serve(Good, Paid)
    other = serve(name="shop.pya", version="2.0.0")
    assert differences() == [
        ("W003", f"{other.place}: CONTRACTS declares no task 'shop.pya'; did you mean `shop.pay`?"),
    ]


def test_w004_another_version_is_told_once() -> None:
    serve(version="1.1.0")
    assert differences() == [("W004", "shop.pay: the handler is of version 1.1.0, CONTRACTS declares 1.0.0")]


def test_a_handler_of_an_older_version_may_stay() -> None:
    serve(Good, Paid)
    serve(version="0.9.0")
    assert differences() == []


def test_w005_a_contract_without_a_handler() -> None:
    assert differences() == [("W005", "pay.orbit:2:6: shop.pay 1.0.0 has no handler in this project")]


STEP = """
workflow Pay {
  version "1.0.0"
  input { order: String }
  output { charge: String }
  step pay { worker "shop.pay" USING with { order: input.order, amount: 1, rate: 1.5 } }
  return { charge: pay.charge }
}
"""


def test_another_version_is_told_once_where_a_workflow_uses_it(found: Registry) -> None:
    serve(version="1.1.0")
    assert [code for code, _ in differences(PAY + STEP.replace("USING", ""))] == ["W004"]


@pytest.mark.parametrize(
    ("using", "count"), [("", 1), ("using python", 1), ("using Python", 1), ("using any", 1), ("using go", 0)]
)
def test_a_handler_is_wanted_only_of_the_language_that_is_asked_for(using: str, count: int) -> None:
    assert len(differences(PAY + STEP.replace("USING", using))) == count


def test_the_workers_may_announce_another_language() -> None:
    assert differences(PAY + STEP.replace("USING", "using python"), "Django") == []
    assert len(differences(PAY + STEP.replace("USING", "using django"), "Django")) == 1


def test_a_version_that_no_workflow_uses_needs_no_handler_beside_another() -> None:
    serve(Good, Paid)
    text = PAY + STEP.replace("USING", "")
    older = read(PAY.replace("1.0.0", "0.9.0"), "old.orbit")
    catalog = read(text, "pay.orbit")
    catalog.declare(older.tasks.values())
    assert compare(registry, catalog) == []


def test_e006_an_input_that_needs_more_than_it_is_given() -> None:
    @dataclass
    class Wants(Good):
        currency: str

    serve(Wants)
    assert only() == (
        "E006",
        "the input Wants needs `currency`, which the contract does not give; known are `amount`, `order`, `rate`",
    )


def test_e006_a_misspelled_field_names_the_one_that_was_meant() -> None:
    @dataclass
    class Wants:
        order: str
        ammount: int
        rate: float

    serve(Wants)
    (first, second) = differences()
    assert first[0] == "E006"
    assert first[1].endswith("needs `ammount`, which the contract does not give; did you mean `amount`?")
    assert second[0] == "W006"
    assert second[1].endswith("the input Wants does not read `amount`, which the contract gives")


def test_w006_an_optional_field_that_never_comes() -> None:
    @dataclass
    class Reads(Good):
        currency: str = "EUR"

    serve(Reads)
    assert only()[0] == "W006"


@pytest.mark.parametrize(
    ("order", "amount", "rate", "codes"),
    [
        (str, int, float, []),
        (str, float, Decimal, []),
        (str | None, int | None, float | str, []),
        (int, int, float, ["E006"]),
        (str, str, float, ["E006"]),
        (str, bool, float, ["E006"]),
        (str, int, int, ["E006"]),
        (list[str], dict, bool, ["E006"] * 3),
        (Any, object, Any, []),
    ],
)
def test_the_types_of_an_input(order: Any, amount: Any, rate: Any, codes: list[str]) -> None:
    serve(TypedDict("Given", {"order": order, "amount": amount, "rate": rate}))
    assert [code for code, _ in differences()] == codes


def test_a_wrong_type_is_told_with_both_types_and_the_place() -> None:
    found = serve(TypedDict("Given", {"order": str, "amount": bool, "rate": float}))
    (told,) = compare(registry, read(PAY, "pay.orbit"))
    assert told.text == (
        f"{found.place}, shop.pay 1.0.0: `amount` of the input Given is bool; the contract declares Int"
    )
    assert told.advice == "Compare the handler's types with pay.orbit:2:6."
    assert told.is_wrong


@pytest.mark.parametrize(
    ("charge", "amount", "rate", "codes"),
    [
        (str, int, float, []),
        (Decimal, int, int, []),
        (str, float, float, ["W006"]),
        (str | None, int, float, ["W006"]),
        (str, int, Decimal, ["E006"]),
        (int, str, bool, ["E006"] * 3),
    ],
)
def test_the_types_of_an_output(charge: Any, amount: Any, rate: Any, codes: list[str]) -> None:
    serve(result=TypedDict("Result", {"charge": charge, "amount": amount, "rate": rate}))
    assert [code for code, _ in differences()] == codes


def test_e006_an_output_that_lacks_a_field() -> None:
    @dataclass
    class Result:
        charge: str
        amount: int
        rates: float

    serve(result=Result)
    told = "the output Result has no `rate`, which the contract wants; did you mean `rates`?"
    assert only() == ("E006", told)


def test_w006_an_output_that_may_lack_a_field() -> None:
    serve(result=Loose)
    code, told = only()
    assert (code, told.endswith("is NotRequired[int], and may be missing; the contract declares Int")) == ("W006", True)


def test_more_members_than_the_contract_names_are_no_difference() -> None:
    @dataclass
    class Result(Paid):
        note: str

    serve(result=Result)
    assert differences() == []


@pytest.mark.parametrize("said", [None, "None", type(None)])
def test_e006_a_handler_that_returns_nothing(said: Any) -> None:
    serve(result=said)
    assert only()[0] == "E006"
    assert differences(PAY.partition("output")[0] + "}") == []


def test_a_model_that_may_convert_is_only_doubted() -> None:
    class Given(pydantic.BaseModel):
        order: int
        amount: int
        rate: float

    class Result(pydantic.BaseModel):
        charge: int
        amount: int
        rate: float

    serve(Given, Result)
    assert [code for code, _ in differences()] == ["W006", "E006"]


def test_e006_a_model_that_refuses_what_it_does_not_name() -> None:
    class Given(pydantic.BaseModel, extra="forbid"):
        order: str
        amount: int

    serve(Given)
    assert only() == ("E006", "the input Given refuses `rate`, which the contract gives")

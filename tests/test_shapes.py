from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Generic,
    Literal,
    NewType,
    NotRequired,
    Optional,
    Required,
    TypedDict,
    TypeVar,
)
from uuid import UUID

import pytest
from django.core.exceptions import ValidationError
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from orbit_django import payloads, shapes
from orbit_django.exceptions import PayloadError

if TYPE_CHECKING:
    from somewhere import Unknown

T = TypeVar("T")
Cents = NewType("Cents", int)


class Colour(Enum):
    RED = "red"
    FIRST = 1


@dataclass
class Line:
    sku: str
    amount: int = 1
    note: str | None = None


@dataclass
class Order:
    lines: list[Line]
    by_name: dict[str, Line] = field(default_factory=dict)
    gift: Optional[Line] = None  # noqa: UP045  (the older spelling is read as well)
    total: int = field(init=False, default=0)


@dataclass
class Node:
    value: int
    next: Node | None = None


@dataclass
class Rich:
    price: Decimal
    day: date
    at: datetime
    clock: time
    lasts: timedelta
    id: UUID
    colour: Colour
    size: Literal["s", "m", 1, None]
    pair: tuple[int, str]
    many: tuple[float, ...]
    tags: frozenset[str]
    names: Mapping[str, Sequence[int]]
    cents: Cents
    free: Any
    either: int | str | None


@dataclass
class Checked:
    amount: int
    error: ClassVar[type[Exception]]

    def __post_init__(self) -> None:
        if self.amount < 0:
            raise self.error("no debts")


@dataclass
class Box(Generic[T]):
    line: Line
    content: T


@dataclass
class Unreadable:
    lines: list[Unknown]


@dataclass
class Outer:
    inner: dict[str, Unreadable]


class Address(TypedDict):
    city: str
    zip: NotRequired[int]


class Loose(TypedDict, total=False):
    city: Required[str]
    zip: int


class Item(BaseModel):
    price: int


class Basket(BaseModel):
    items: list[Item]


def faults(value: object, kind: object) -> dict[str, str]:
    with pytest.raises(PayloadError) as caught:
        shapes.read(value, kind)
    return caught.value.fields


def test_a_dataclass_is_made_of_its_fields_and_more_fields_are_let_pass() -> None:
    found = shapes.read({"lines": [{"sku": "a", "amount": 2, "new": 1}], "later": {}}, Order)
    assert found == Order([Line("a", 2)])


def test_nested_objects_are_read_in_lists_dictionaries_and_optional_fields() -> None:
    line = {"sku": "a"}
    found = shapes.read({"lines": [], "by_name": {"x": line}, "gift": line, "total": 9}, Order)
    assert found == Order([], {"x": Line("a")}, Line("a"))
    assert found.total == 0


@pytest.mark.promise("E8")
def test_every_field_that_does_not_fit_is_named() -> None:
    value = {"lines": [{"sku": "a"}, {"amount": "2"}], "by_name": {"x": {"sku": None}}, "gift": {"sku": 1}}
    assert faults(value, Order) == {
        "$.lines[1].sku": "is missing",
        "$.lines[1].amount": "expected int, found str",
        "$.by_name.x.sku": "expected str, found null",
        "$.gift.sku": "expected str, found int",
    }


@pytest.mark.parametrize("value", [None, [], "text", 1, True])
def test_an_object_is_an_object(value: object) -> None:
    assert list(faults(value, Line)) == ["$"]
    assert list(faults(value, Address)) == ["$"]
    assert list(faults(value, dict[str, int])) == ["$"]


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (True, int), (True, float), (True, Decimal), (True, Cents), (True, Literal[1]), (True, Colour), (1, bool),
        (1, Literal[True]), ("1", int), ("1.5", float), (1, str), (1.5, int), (None, str), (10**400, float),
        (float("inf"), int),
        ("NaN", Decimal), ("", Decimal), (None, Decimal), ("2024-02-30", date), (20240101, date), ("x", datetime),
        ("25:00", time), ("x", timedelta), ("x", UUID), (5, UUID), ("RED", Colour), ([], Colour), ("xl", Literal["s"]),
        ([1], tuple[int, str]), ([1, 2], tuple[int, str]), (["a"], tuple[int, ...]), (["a"], set[int]),
        ([[1]], set[list[int]]), ({"a": 1}, list[int]), ("ab", Sequence[str]), (1, Iterable[int]),
        ({"a": "b"}, dict[str, int]),
        ({"a": 1}, dict[int, int]), ([], None | int), ({"line": {}, "content": 1}, Box[int]),
        ("x", Annotated[int, "meaning"]),
    ],
)  # fmt: skip
@pytest.mark.promise("E8")
def test_nothing_is_taken_for_something_else(value: object, kind: object) -> None:
    assert faults(value, kind)


@pytest.mark.parametrize(
    ("value", "kind", "result"),
    [
        (1.0, int, 1), (2, float, 2.0), (1.0, Literal[1], 1), ("red", Colour, Colour.RED), (1, Colour, Colour.FIRST),
        ("1.10", Decimal, Decimal("1.10")), (0.1, Decimal, Decimal("0.1")), ([1, "a"], tuple[int, str], (1, "a")),
        ([], tuple[int, ...], ()), ([1], tuple, (1,)), ([1, 1], set, {1}),
        ({"red": 1}, dict[Colour, int], {Colour.RED: 1}), (None, int | None, None), ("x", datetime | str, "x"),
        (5, Cents, 5),
        (None, Any, None), ([1], Iterable[int], [1]),
        ({"line": {"sku": "a"}, "content": 1}, Box[int], Box(Line("a"), 1)),
        ("2024-02-29T12:00:00Z", datetime, datetime(2024, 2, 29, 12, tzinfo=UTC)),
    ],
)  # fmt: skip
def test_json_is_read_as_the_type(value: object, kind: object, result: object) -> None:
    found = shapes.read(value, kind)
    assert found == result
    assert type(found) is type(result)


RICH = st.builds(
    Rich,
    price=st.decimals(allow_nan=False, allow_infinity=False),
    day=st.dates(),
    at=st.datetimes(timezones=st.just(UTC)).map(lambda at: at.replace(microsecond=0)),
    clock=st.times().map(lambda at: at.replace(microsecond=0)),
    lasts=st.timedeltas(timedelta(days=-(10**6)), timedelta(days=10**6)),
    id=st.uuids(),
    colour=st.sampled_from(Colour),
    size=st.sampled_from(["s", "m", 1, None]),
    pair=st.tuples(st.integers(), st.text(st.characters(codec="utf-8"))),
    many=st.lists(st.floats(allow_nan=False, allow_infinity=False)).map(tuple),
    tags=st.just(frozenset()),
    names=st.dictionaries(st.text(st.characters(codec="utf-8")), st.lists(st.integers())),
    cents=st.integers(),
    free=st.none() | st.booleans(),
    either=st.none() | st.integers() | st.just("x"),
)


@given(RICH)
@pytest.mark.promise("E8")
def test_what_a_handler_returns_is_read_as_the_same_value(value: Rich) -> None:
    written = payloads.plain({**vars(value), "tags": list(value.tags)})
    assert shapes.read(written, Rich) == value


def test_a_type_may_name_itself() -> None:
    assert shapes.read({"value": 1, "next": {"value": 2}}, Node) == Node(1, Node(2))
    assert faults({"value": 1, "next": {"value": "2"}}, Node) == {"$.next.value": "expected int, found str"}


@pytest.mark.parametrize("error", [ValueError, TypeError, AssertionError, ValidationError])
def test_a_dataclass_may_refuse_its_values(error: type[Exception]) -> None:
    kind = type("Own", (Checked,), {"error": error})
    assert "no debts" in faults({"amount": -1}, kind)["$"]


@pytest.mark.parametrize("kind", [Address, Loose])
def test_a_typed_dict_says_what_may_be_missing(kind: type) -> None:
    assert shapes.read({"city": "Bern", "more": 1}, kind) == {"city": "Bern", "more": 1}
    assert faults({"zip": "x"}, kind) == {"$.city": "is missing", "$.zip": "expected int, found str"}


def test_a_pydantic_model_names_its_faults_in_our_way() -> None:
    assert shapes.read({"items": [{"price": 1}]}, Basket) == Basket(items=[Item(price=1)])
    assert list(faults({"items": [{"price": 1}, {"price": "x"}]}, Basket)) == ["$.items[1].price"]


def test_several_types_are_all_named() -> None:
    assert faults(1.5, int | str | None) == {"$": "expected int or str or null, found float"}


@pytest.mark.parametrize(
    ("kind", "is_shape", "holds_shape"),
    [
        (Line, True, True), (Address, True, True), (Item, True, True), (Box[int], True, True),
        (Line | None, False, True), (list[Line], False, True), (dict[str, list[Address]], False, True),
        (dict, False, False), (dict[str, Any], False, False), (Any, False, False), (None, False, False),
        (Line("a"), False, False), (Literal["Line"], False, False), (int | None, False, False),
    ],
)  # fmt: skip
def test_shapes_are_told_from_other_types(kind: object, *, is_shape: bool, holds_shape: bool) -> None:
    assert (shapes.is_shape(kind), shapes.holds_shape(kind)) == (is_shape, holds_shape)


def test_a_name_that_nobody_defined_is_found_at_any_depth() -> None:
    assert shapes.unreadable(Outer) == "a field of Unreadable cannot be read: name 'Unknown' is not defined"
    assert shapes.unreadable(list[Outer] | None) != ""
    assert [shapes.unreadable(kind) for kind in (Node, Rich, Address, Basket, Box[int], dict)] == [""] * 6

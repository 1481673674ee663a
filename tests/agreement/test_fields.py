import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from typing import Annotated, Any, Literal, NewType, NotRequired, TypedDict
from uuid import UUID

import pydantic
import pytest

from orbit_django.agreement.fields import form_of, kinds_of

Sku = NewType("Sku", str)


class Colour(enum.Enum):
    RED = "red"
    NONE = None


class Level(enum.IntEnum):
    LOW = 1


class Text(str): ...


class Line(TypedDict):
    sku: str
    note: NotRequired[str]


@dataclass
class Order:
    key: str
    pieces: int = 1
    seen: list[str] = field(default_factory=list)
    total: int = field(init=False, default=0)


@dataclass
class Unreadable:
    line: "Nowhere"  # noqa: F821  (that nobody defines it is the point)


class Model(pydantic.BaseModel):
    key: str
    amount: Decimal = pydantic.Field(alias="sum")
    colour: Colour | None = None
    inner: "Inner | None" = None

    @pydantic.computed_field
    def double(self) -> int:
        return 2


class Inner(pydantic.BaseModel):
    name: str


class Strict(pydantic.BaseModel, extra="forbid"):
    key: Literal["a", "b"]


class Tree(pydantic.BaseModel):
    name: str
    parts: list["Tree"]


class Odd:
    @classmethod
    def __get_pydantic_core_schema__(cls, source, handler):
        from pydantic_core import core_schema

        return core_schema.no_info_plain_validator_function(lambda value: value)

    @classmethod
    def __get_pydantic_json_schema__(cls, schema, handler):
        raise ZeroDivisionError


class OddModel(pydantic.BaseModel):
    odd: Odd


@pytest.mark.parametrize(
    ("hint", "read", "given"),
    [
        (str, "string", "string"),
        (bool, "boolean", "boolean"),
        (int, "integer", "integer"),
        (float, "integer number", "integer number"),
        (None.__class__, "null", "null"),
        (Decimal, "integer number string", "string"),
        (UUID, "string", "string"),
        (date, "string", "string"),
        (Sku, "string", "string"),
        (Text, None, "string"),
        (str | None, "null string", "null string"),
        (Annotated[int, "pieces"], "integer", "integer"),
        (Literal["a", 1], "integer string", "integer string"),
        (Literal[b"a"], None, None),
        (Colour, "null string", "null string"),
        (Level, "integer", "integer"),
        (list[int], "array", "array"),
        (tuple, "array", "array"),
        (dict[str, int], "object", "object"),
        (Mapping[str, int], "object", "object"),
        (Order, "object", "object"),
        (Any, None, None),
        (object, None, None),
        (Any | int, None, None),
    ],
)
def test_the_kinds_of_a_hint(hint: Any, read: str | None, given: str | None) -> None:
    def words(*, is_output: bool) -> str | None:
        kinds = kinds_of(hint, is_output=is_output)
        return None if kinds is None else " ".join(sorted(kinds))

    assert (words(is_output=False), words(is_output=True)) == (read, given)


def shown(kind: Any, *, is_output: bool = False) -> dict[str, tuple[str, bool]]:
    form = form_of(kind, is_output=is_output)
    assert form is not None
    return {name: (" ".join(sorted(item.kinds or {"any"})), item.is_sure) for name, item in form.fields.items()}


def test_a_dataclass_reads_what_its_constructor_takes_and_gives_all_of_its_fields() -> None:
    assert shown(Order) == {"key": ("string", True), "pieces": ("integer", False), "seen": ("array", False)}
    given = shown(Order, is_output=True)
    assert given["pieces"] == given["total"] == ("integer", True)


def test_a_typed_dict_may_leave_out_what_it_says() -> None:
    assert shown(Line) == shown(Line, is_output=True) == {"sku": ("string", True), "note": ("string", False)}


def test_a_model_is_asked_for_its_schema() -> None:
    assert shown(Model) == {
        "key": ("string", True),
        "sum": ("number string", True),
        "colour": ("null string", False),
        "inner": ("null object", False),
    }
    given = shown(Model, is_output=True)
    assert (given["sum"], given["double"]) == (("string", True), ("integer", True))


def test_a_model_that_contains_itself_is_looked_into() -> None:
    assert shown(Tree) == {"name": ("string", True), "parts": ("array", True)}


def test_what_may_be_there_beside_the_fields() -> None:
    assert [form_of(kind, is_output=False).is_open for kind in (Order, Line, Model, Strict)] == [
        True,
        True,
        True,
        False,
    ]
    assert [form_of(kind, is_output=True).is_open for kind in (Order, Line, Model)] == [False, False, False]


def test_only_a_model_may_read_another_kind_than_it_says() -> None:
    assert [form_of(kind, is_output=False).is_lenient for kind in (Order, Line, Model)] == [False, False, True]
    assert not form_of(Model, is_output=True).is_lenient


@pytest.mark.parametrize("kind", [Order | None, Annotated[Order, "an order"]])
def test_a_type_is_looked_for_inside(kind: Any) -> None:
    assert set(shown(kind)) == {"key", "pieces", "seen"}


@pytest.mark.parametrize("kind", [None, dict, list[Order], Order | Line, Unreadable, OddModel, pydantic.RootModel[int]])
def test_what_names_no_fields_has_no_form(kind: Any) -> None:
    assert form_of(kind, is_output=False) is None

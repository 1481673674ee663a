import json
import random
from collections import UserDict
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

import pytest
from django.utils.functional import lazy
from django.utils.translation import gettext_lazy
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from orbit_django import payloads
from orbit_django.exceptions import PayloadError, PayloadTooLargeError
from orbit_django.payloads import fingerprint, plain
from orbit_django.protocol import Completion, Failure

LIMIT = 4096
TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner), max_leaves=20)
OBJECTS = st.dictionaries(TEXTS, VALUES, max_size=5)
ANY_TEXT = st.text(st.characters())  # half surrogates as well


class Broken:
    def __repr__(self) -> str:
        raise RuntimeError


class Colour(Enum):
    RED = "red"


@dataclass
class Line:
    price: Decimal
    colour: Colour = Colour.RED


@dataclass
class Unset:
    price: int = field(init=False)


class Model(BaseModel):
    order_id: int = Field(alias="orderId")


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def shuffled(value: Any, dice: random.Random) -> Any:
    """Return an equal value whose members come in another order and whose whole numbers have their other form."""
    if isinstance(value, dict):
        items = list(value.items())
        dice.shuffle(items)
        return {name: shuffled(item, dice) for name, item in items}
    if isinstance(value, list):
        return [shuffled(item, dice) for item in value]
    is_small = isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**53
    return float(value) if is_small else value


def as_value(value: Any) -> Any:
    """Return something that Python compares as JSON values are compared."""
    if isinstance(value, dict):
        return "object", frozenset((name, as_value(item)) for name, item in value.items())
    if isinstance(value, list):
        return "list", tuple(map(as_value, value))
    return (type(value), value) if isinstance(value, bool | str) else value


@given(VALUES)
def test_plain_json_stays_what_it_is(value: Any) -> None:
    assert plain(value) == value


@given(OBJECTS)
@pytest.mark.promise("E8")
def test_an_output_comes_back_as_it_was(value: dict[str, Any]) -> None:
    for limit in (10**6, len(payloads.body_of("", Completion(payloads.compact(value, is_ascii=False))).encode())):
        assert json.loads(payloads.encode_output(value, limit)) == value


@given(OBJECTS, ANY_TEXT)
def test_a_body_is_json_with_the_token_and_the_output(value: dict[str, Any], token: str) -> None:
    body = payloads.body_of(token, Completion(payloads.compact(value)))
    assert json.loads(body) == {"token": token, "output": value}


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (Decimal("10.10"), "10.10"),
        (date(2024, 2, 29), "2024-02-29"),
        (datetime(2024, 2, 29, 12, tzinfo=UTC), "2024-02-29T12:00:00Z"),
        (datetime(2024, 2, 29, 12), "2024-02-29T12:00:00"),  # noqa: DTZ001  (naive on purpose)
        (time(12, 30), "12:30:00"),
        (timedelta(hours=1), "P0DT01H00M00S"),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (gettext_lazy("Yes"), "Yes"),
        (Colour.RED, "red"),
        ((1, [2]), [1, [2]]),
        (UserDict(a=1), {"a": 1}),
        (Line(Decimal("1.50")), {"price": "1.50", "colour": "red"}),
        (Model(orderId=7), {"orderId": 7}),
    ],
)
def test_rich_values_have_one_form(value: object, written: object) -> None:
    assert plain(value) == written


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ({"a": [0, float("nan")]}, "$.a[1]"),
        ({"a": {"b": float("-inf")}}, "$.a.b"),
        ([Decimal("NaN")], "$[0]"),
        (Line(Decimal("Infinity")), "$.price"),
        ({"a": {1}}, "$.a"),
        ({"a": b"raw"}, "$.a"),
        ({"a": (x for x in ())}, "$.a"),
        ({"a": Broken()}, "$.a"),
        ({"a": Line}, "$.a"),
        ({"a": {1: 2}}, "$.a"),
        ({"a": {None: 2}}, "$.a"),
        ({"a": "\ud800"}, "$.a"),
        ({"a": {"\udfff": 1}}, "$.a.\\udfff"),
        ({"a": [10**5000]}, "$.a[0]"),
        ({"a": time(12, tzinfo=UTC)}, "$.a"),
        ({"a": Unset()}, "$.a"),
        ({"a": lazy(lambda: 1 // 0, str)()}, "$.a"),
    ],
    ids=lambda value: value if isinstance(value, str) else "value",
)
@pytest.mark.promise("E8")
def test_what_json_cannot_carry_is_named_by_its_path(value: object, path: str) -> None:
    with pytest.raises(PayloadError) as caught:
        plain(value)
    assert caught.value.path == path


@pytest.mark.promise("E8")
def test_depth_has_a_limit_and_a_circle_is_too_deep() -> None:
    assert plain(nested(100)) == nested(100)
    circle: dict[str, Any] = {}
    circle["self"] = circle
    for value in (nested(101), circle):
        with pytest.raises(PayloadError, match="nested deeper than 100 levels, or contains itself"):
            plain(value)


@pytest.mark.promise("E8")
def test_nul_and_large_numbers_pass_unchanged() -> None:
    value = {"inv": "A\x00B", "id": 9007199254740993, "big": 18446744073709551616, "digits": 10**4298}
    text = payloads.encode_output(plain(value), 10_000)
    assert json.loads(text) == value
    assert "\x00" not in text


@pytest.mark.promise("E8")
def test_the_whole_body_is_measured_with_its_token() -> None:
    value, token = {"a": "x" * 100}, "t" * 50
    size = len(payloads.body_of(token, Completion(payloads.compact(value))))
    assert payloads.encode_output(value, size, token)
    with pytest.raises(PayloadTooLargeError) as caught:
        payloads.encode_output(value, size - 1, token)
    assert (caught.value.size, caught.value.limit) == (size, size - 1)
    assert payloads.encode_output(value, size - 1, token[1:])


@pytest.mark.promise("E8")
def test_a_size_is_counted_in_bytes() -> None:
    with pytest.raises(PayloadTooLargeError) as caught:
        payloads.encode_output({"a": "🍣" * 100}, 400)
    assert caught.value.size == len('{"token":"","output":{"a":""}}') + 400


def test_a_text_that_only_fits_unescaped_is_sent_in_utf_8() -> None:
    assert payloads.encode_output({"a": "é" * 100}, 1000) == '{"a":"' + "\\u00e9" * 100 + '"}'
    assert payloads.encode_output({"a": "é" * 100}, 300) == '{"a":"' + "é" * 100 + '"}'


@given(VALUES, st.randoms(use_true_random=False))
@pytest.mark.promise("E5")
def test_equal_values_have_equal_fingerprints(value: Any, dice: random.Random) -> None:
    assert fingerprint(shuffled(value, dice)) == fingerprint(value)
    assert fingerprint(json.loads(json.dumps(value, indent=3))) == fingerprint(value)


@given(VALUES, VALUES)
@pytest.mark.promise("E5")
def test_different_values_have_different_fingerprints(one: Any, two: Any) -> None:
    assert (fingerprint(one) == fingerprint(two)) is (as_value(one) == as_value(two))


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ('{"a":1,"b":{"x":1,"y":2}}', '{ "b": {"y": 2, "x": 1}, "a": 1 }'),
        ('{"n":1}', '{"n":1.0}'),
        ("100", "1e2"),
        ("10000000000000000000000", "1e22"),
        ("0", "-0.0"),
        ('"\\u00e9\\n\\/"', '"é\\u000a/"'),
    ],
)
@pytest.mark.promise("E5")
def test_the_way_a_value_is_written_makes_no_difference(one: str, two: str) -> None:
    assert fingerprint(json.loads(one)) == fingerprint(json.loads(two))


@pytest.mark.parametrize(
    ("one", "two"),
    [
        (True, 1), (False, 0), (None, False), ("1", 1), ("null", None), ([], {}), ([[1], 2], [[1, 2]]),
        ([1, 2], [2, 1]), ([1, []], [[1]]), ({"a": "b"}, ["a", "b"]), ({"b": {"a": 1}}, {"b": {}, "a": 1}),
        ({"a": None}, {}), ("é", "e\u0301"), (9007199254740993, 9007199254740992), (0.1, 0.2),
        ({"a": [1], "b": [2]}, {"a": [2], "b": [1]}),
    ],
)  # fmt: skip
@pytest.mark.promise("E5")
def test_other_values_are_told_apart(one: object, two: object) -> None:
    assert fingerprint(one) != fingerprint(two)


@pytest.mark.promise("E5")
def test_every_input_that_can_be_read_has_a_fingerprint() -> None:
    assert fingerprint(nested(50_000)) != fingerprint(nested(50_001))
    assert len({fingerprint(value) for value in ("\x00", "\ud800", "", float("inf"))}) == 4


@given(st.lists(ANY_TEXT, max_size=3), st.lists(ANY_TEXT, max_size=3))
@pytest.mark.promise("E5")
def test_a_digest_belongs_to_one_list_of_texts(one: list[str], two: list[str]) -> None:
    assert (payloads.digest(*one) == payloads.digest(*two)) is (one == two)


@given(ANY_TEXT, ANY_TEXT, st.none() | VALUES | ANY_TEXT, st.sampled_from([1024, LIMIT, 10**6]))
def test_a_failure_is_never_too_large_to_report(code: str, message: str, details: Any, limit: int) -> None:
    failure = Failure(code[:20], message * 1000, retryable=True, details=[details] * 100)
    body = payloads.failure_body("t" * 40, payloads.encode_failure(failure, limit))
    assert len(body.encode()) <= limit
    assert set(json.loads(body)) == {"token", "error_code", "error_message", "retryable", "details"}


def test_a_failure_that_fits_is_reported_as_it_is() -> None:
    fields = payloads.encode_failure(Failure("BUSY", "naïve → ✓", retryable=False, details={"n": [1]}), LIMIT)
    assert json.loads(fields) == {
        "error_code": "BUSY",
        "error_message": "naïve → ✓",
        "retryable": False,
        "details": {"n": [1]},
    }
    assert "details" not in json.loads(payloads.encode_failure(Failure("BUSY", "", retryable=True), LIMIT))


@pytest.mark.parametrize("code", ["", "  ", "\n"])
def test_a_failure_without_a_code_gets_one(code: str) -> None:
    fields = json.loads(payloads.encode_failure(Failure(code, "m", retryable=True), LIMIT))
    assert fields["error_code"] == "UNHANDLED_EXCEPTION"


@pytest.mark.parametrize(
    "details", [Broken(), {1: 2}, {"a": float("nan")}, nested(5000), Unset(), "\ud800", [10**5000]]
)
def test_details_without_a_json_form_are_shown_as_text(details: object) -> None:
    fields = json.loads(payloads.encode_failure(Failure("A", "m", retryable=True, details=details), LIMIT))
    assert isinstance(fields["details"]["text"], str)


def test_long_texts_are_cut_with_a_mark() -> None:
    fields = json.loads(payloads.encode_failure(Failure("A", "m" * LIMIT, retryable=True, details="d" * LIMIT), LIMIT))
    assert fields["error_message"].endswith("m […]")
    assert fields["details"]["cut"] is True
    assert fields["details"]["text"].endswith("d […]")


@given(ANY_TEXT, st.none() | st.integers(4, 20))
def test_a_stored_text_is_one_that_every_database_keeps(text: str, length: int | None) -> None:
    kept = payloads.storable(text, length)
    assert "\x00" not in kept
    assert kept.encode().decode() == kept
    assert length is None or len(kept) <= length


def test_a_number_comes_with_its_noun() -> None:
    assert [payloads.counted(count, "task") for count in (1, 0, 2_000)] == ["1 task", "0 tasks", "2,000 tasks"]
    assert payloads.counted(2, "process") == "2 processes"

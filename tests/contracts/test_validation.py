import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbit_django.contracts import find_mismatch

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@pytest.mark.parametrize(
    ("value", "wanted"),
    [("", "String"), (3, "Int"), (3.0, "Int"), (2**70, "Int"), (3, "Float"), (3.5, "Float"), (-0.0, "Float")],
)
def test_what_fits(value: Any, wanted: str) -> None:
    assert find_mismatch({"a": value}, {"a": wanted}) is None


@pytest.mark.parametrize(
    ("value", "wanted", "said"),
    [
        (None, "String", "$.a: expected String, found null"),
        (3, "String", "$.a: expected String, found Int"),
        ("3", "Int", "$.a: expected Int, found String"),
        (3.5, "Int", "$.a: expected Int, found Float"),
        (True, "Int", "$.a: expected Int, found Boolean"),
        (False, "Float", "$.a: expected Float, found Boolean"),
        (math.nan, "Float", "$.a: expected Float, found Float"),
        ([], "String", "$.a: expected String, found a list"),
        ({}, "Float", "$.a: expected Float, found an object"),
    ],
)
def test_what_does_not_fit(value: Any, wanted: str, said: str) -> None:
    assert find_mismatch({"a": value}, {"a": wanted}) == said


def test_a_missing_field_is_named_as_the_runtime_names_it() -> None:
    assert (
        find_mismatch({"msg": 1}, {"message": "String"}) == "$.message: missing required field `message` of type String"
    )


@pytest.mark.parametrize("value", [None, [], "a", 1])
def test_only_objects_have_fields(value: Any) -> None:
    assert str(find_mismatch(value, {})).startswith("$: expected an object, found ")


def test_members_that_nobody_declared_are_let_through() -> None:
    assert find_mismatch({"a": "", "b": None}, {"a": "String"}) is None


@given(JSON, st.dictionaries(st.text(min_size=1), st.sampled_from(["String", "Int", "Float"])))
def test_every_value_is_judged(value: Any, shape: dict[str, str]) -> None:
    mismatch = find_mismatch(value, shape)

    assert mismatch is None or mismatch.startswith("$")
    if mismatch is None:
        assert set(shape) <= set(value)

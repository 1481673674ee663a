import json
import math

import pytest
from google.protobuf.struct_pb2 import ListValue, Struct, Value

from orbit_django.exceptions import NotCarriedError
from orbit_django.transports.values import SpoiltError, read, write

VALUES = [
    None,
    True,
    False,
    0,
    -1,
    0.5,
    2**53,
    -(2**53),
    "",
    "ü\x00",
    [],
    {},
    [[], {}],
    {"": None, "a": [1, {"b": "c"}]},
]


def carried(value: object) -> object:
    target = Value()
    write(target, value)
    return read(Value.FromString(target.SerializeToString()))


def told(value: object) -> str:
    """Return the value as text, whatever the order of members: messages keep none."""
    return json.dumps(value, sort_keys=True)


def nested(depth: int, *, is_list: bool) -> object:
    value: object = 1
    for _ in range(depth):
        value = [value] if is_list else {"a": value}
    return value


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_every_json_value_comes_out_as_it_went_in(value: object) -> None:
    assert told(carried(value)) == told(value)


def test_a_whole_double_is_an_integer_and_a_large_one_is_not() -> None:
    assert repr(carried([5.0, -0.0, 1e300])) == "[5, 0, 1e+300]"


@pytest.mark.parametrize("number", [2**53 + 1, -(2**53) - 1, 10**400])
def test_a_whole_number_beyond_names_its_path(number: int) -> None:
    with pytest.raises(NotCarriedError, match=r"^\$\.rows\[1\]\.id: is a whole number beyond 2\^53"):
        carried({"rows": [{}, {"id": number}]})


@pytest.mark.parametrize(("is_list", "most"), [(True, 47), (False, 31)])
def test_what_is_nested_too_deeply_for_readers_is_not_written(is_list: bool, most: int) -> None:
    assert carried(nested(most, is_list=is_list)) == nested(most, is_list=is_list)
    with pytest.raises(NotCarriedError, match="nested deeper"):
        carried(nested(most + 1, is_list=is_list))


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_a_number_that_json_does_not_have_is_no_value(number: float) -> None:
    items = ListValue(values=[Value(number_value=number)])
    with pytest.raises(SpoiltError, match="which JSON does not have"):
        read(Value(struct_value=Struct(fields={"a": Value(list_value=items)})))


def test_a_value_that_says_nothing_is_null() -> None:
    assert read(Value()) is None

"""Values: the one form of each, the schemas they match, and the secrets they hold."""

from typing import Any

import pytest

from orbit_django.embedded.weave.classification import SECRET_VALUE, UNCLASSIFIED, reason_to_reject
from orbit_django.embedded.weave.schemas import is_supported, matches
from orbit_django.embedded.weave.values import canonical, digest


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.0, "1"),
        (-0.0, "0"),
        (1e16, "10000000000000000"),
        (1e21, "1e+21"),
        (1.5e300, "1.5e+300"),
        (1e-5, "0.00001"),
        (-1.5e-6, "-0.0000015"),
        (1e-7, "1e-7"),
        (0.1, "0.1"),
        ("\x07ü\n", '"\\u0007ü\\n"'),
        ({"\U0001f600": 1, "\ufb33": 2, "a": [None, True]}, '{"a":[null,true],"\U0001f600":1,"\ufb33":2}'),
    ],
)
def test_each_value_has_one_form(value: Any, text: str) -> None:
    assert canonical(value) == text


def test_different_values_have_different_digests() -> None:
    values: list[Any] = [0, False, None, "", "0", [], {}, [0], {"a": 0}, 0.5]
    assert len({digest(value) for value in values}) == len(values)


MATCHES: list[tuple[Any, Any, Any]] = [
    ({"type": "integer"}, [1, 1.0], [1.5, True, "1"]),
    ({"type": ["string", "null"]}, ["", None], [0, []]),
    ({"enum": [1, "a"]}, [1, 1.0, "a"], [True, "b"]),
    ({"const": {"a": [1]}}, [{"a": [1.0]}], [{"a": [True]}, {}]),
    ({"required": ["a"]}, [{"a": 1}, 5], [{}]),
    ({"properties": {"a": {"type": "string"}}, "additionalProperties": False}, [{"a": ""}, {}], [{"a": 1}, {"b": ""}]),
    ({"items": {"minimum": 1, "exclusiveMaximum": 3}}, [[1, 2], "x"], [[0], [3]]),
    ({"prefixItems": [{"type": "string"}], "items": False}, [["a"], []], [[1], ["a", "b"]]),
    ({"minItems": 1, "maxItems": 2}, [[1]], [[], [1, 2, 3]]),
    ({"minLength": 1, "maxLength": 2, "pattern": "^a"}, ["a", "ab"], ["", "b", "abc"]),
    ({"minProperties": 1, "maxProperties": 1}, [{"a": 1}], [{}, {"a": 1, "b": 1}]),
    ({"exclusiveMinimum": 0, "maximum": 1, "multipleOf": 0.1}, [0.3, 1], [0, 1.1, 0.05]),
    ({"allOf": [{"minimum": 1}, {"maximum": 2}]}, [1], [0, 3]),
    ({"anyOf": [{"type": "string"}, {"type": "null"}]}, [None], [1]),
    ({"oneOf": [{"minimum": 1}, {"maximum": 2}]}, [0, 3], [1]),
    ({"not": {"type": "null"}}, [1], [None]),
    ({"if": {"type": "string"}, "then": {"minLength": 1}, "else": {"type": "null"}}, ["a", None], ["", 1]),
    ({"$ref": "#/$defs/a~1b", "$defs": {"a/b": {"type": "null"}}}, [None], [1]),
    (True, [1], []),
    (False, [], [1]),
]


@pytest.mark.parametrize(("schema", "good", "bad"), MATCHES)
def test_values_match_schemas(schema: Any, good: list[Any], bad: list[Any]) -> None:
    assert is_supported(schema)
    assert [value for value in good if not matches(value, schema)] == []
    assert [value for value in bad if matches(value, schema)] == []


@pytest.mark.parametrize(
    "schema",
    [
        {"wonder": 1},
        {"type": "text"},
        {"pattern": "("},
        {"$ref": "https://elsewhere"},
        {"$ref": "#/nowhere"},
        {"properties": []},
        {"items": {"wonder": 1}},
        [],
    ],
)
def test_schemas_outside_the_profile(schema: Any) -> None:
    assert not is_supported(schema)


MARK = {"x-secret": True}
NESTED = {"$defs": {"s": {"properties": {"pin": {"writeOnly": True}}}}, "items": {"$ref": "#/$defs/s"}}


@pytest.mark.parametrize(
    ("schema", "value", "is_secret"),
    [
        (MARK, None, True),
        ({"x-secret": "true"}, 1, False),
        ({"properties": {"a": MARK}}, {"a": 1}, True),
        ({"properties": {"a": MARK}}, {"b": 1}, False),
        ({"additionalProperties": MARK, "properties": {"a": {}}}, {"a": 1}, False),
        ({"additionalProperties": MARK}, {"a": 1}, True),
        ({"items": MARK}, [], False),
        ({"prefixItems": [{}, MARK]}, [1, 2], True),
        (NESTED, [{"pin": 0}], True),
        (NESTED, [{"pen": 0}], False),
        *(({name: [{"type": "null"}, MARK]}, 1, True) for name in ("allOf", "anyOf", "oneOf")),
        *(({name: MARK}, 1, True) for name in ("if", "then", "else", "not")),
    ],
)
def test_a_value_that_any_branch_may_mark_is_secret(schema: Any, value: Any, is_secret: bool) -> None:
    assert reason_to_reject(value, {}, schema) == (SECRET_VALUE if is_secret else None)


def test_what_leads_in_a_circle_cannot_be_classified() -> None:
    assert reason_to_reject(1, {"$ref": "#"}) == UNCLASSIFIED
    tree = {"properties": {"left": {"$ref": "#"}}}
    assert reason_to_reject({"left": {"left": {}}}, tree) is None

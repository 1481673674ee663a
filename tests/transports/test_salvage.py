import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbit_django.protocol import Unreadable
from orbit_django.transports.answers import read_json
from orbit_django.transports.http import HttpTransport
from orbit_django.transports.salvage import salvage
from tests.transports import wire

DEEP = "[" * 100_000 + "]" * 100_000
UNREADABLE = {
    "deep": (DEEP, "it is nested too deeply"),
    "deep objects": ('{"a":' * 100_000 + "1" + "}" * 100_000, "it is nested too deeply"),
    "digits": ("9" * 5_000, "it has a number with too many digits"),
    "digits inside": ('{"a": [1, {"b": -' + "9" * 5_000 + "}]}", "it has a number with too many digits"),
    "NaN": ('{"a": NaN}', "NaN is not JSON"),
    "Infinity": ("-Infinity", "-Infinity is not JSON"),
    "marks in texts": ('{"a": "}],{[\\"", "b": NaN}', "NaN is not JSON"),
}
SPOILT = {
    "nothing": "",
    "a page": "<html>",
    "a list": "[1]",
    "half": '{"token": "t-1", "input": {"a": NaN',
    "cut in a text": '{"token": "t-1", "input": NaN, "b": "c',
    "cut after a comma": '{"token": "t-1", "input": NaN,',
    "cut after a name": '{"token": "t-1", "input": NaN, "b"',
    "no end": '{"token": "t-1", "input": NaN',
    "something behind": '{"token": "t-1", "input": NaN} {}',
    "bad syntax inside": '{"token": "t-1", "input": {"a": tru}}',
    "no name": '{"token": "t-1", input: NaN}',
    "wrong brackets": '{"token": "t-1", "input": [}, "a": NaN}',
    "readable": '{"token": "t-1", "input": {"a": 1}}',
}


@pytest.mark.promise("E7")
@pytest.mark.parametrize(("text", "why"), UNREADABLE.values(), ids=UNREADABLE.keys())
def test_an_assignment_whose_input_alone_cannot_be_read_keeps_its_token(text: str, why: str) -> None:
    body = f' {{"tok\\u0065n" : "t-1", "input": {text} , "attempt":2}}\n'.encode()
    assert salvage(body, read_json) == {"token": "t-1", "attempt": 2, "input": Unreadable(why)}


@pytest.mark.promise("E7")
def test_bytes_that_are_no_text_are_told() -> None:
    body = b'\xef\xbb\xbf{"token": "t-1", "input": {"a": "\xed\xa0\x80"}}'
    assert salvage(body, read_json) == {"token": "t-1", "input": Unreadable("its byte 7 is not UTF-8")}


@pytest.mark.promise("E7")
def test_any_field_may_be_the_one_that_cannot_be_read() -> None:
    body = b'{"token": "t-1", "input": {"a": 1}, "attempt": NaN, "priority": Infinity}'
    odd = {"attempt": Unreadable("NaN is not JSON"), "priority": Unreadable("Infinity is not JSON")}
    assert salvage(body, read_json) == {"token": "t-1", "input": {"a": 1}, **odd}


@pytest.mark.parametrize("text", SPOILT.values(), ids=SPOILT.keys())
def test_what_may_have_been_spoilt_on_its_way_is_left_alone(text: str) -> None:
    assert salvage(text.encode(), read_json) is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(members=st.dictionaries(st.text(), JSON, max_size=4), is_ascii=st.booleans())
def test_whatever_stands_beside_it_is_read_as_it_is(members: dict[str, object], is_ascii: bool) -> None:
    members.pop("input", None)
    whole = json.dumps(members | {"input": ["here"]}, ensure_ascii=is_ascii).replace('["here"]', "[NaN]")
    assert salvage(whole.encode("utf-8", "surrogatepass"), read_json) == members | {
        "input": Unreadable("NaN is not JSON")
    }


@given(text=st.text(alphabet='{}[]",:\\ntoke1 ', max_size=60))
def test_no_text_is_too_odd(text: str) -> None:
    found = salvage(text.encode(), read_json)
    assert found is None or any(isinstance(value, Unreadable) for value in found.values())


@pytest.mark.promise("E7")
def test_a_poll_brings_it_as_an_assignment() -> None:
    texts = ("execution_id", "workflow", "workflow_version", "step_id", "task_name", "contract_version")
    known = dict.fromkeys((*texts, "idempotency_key"), "x")
    body = json.dumps({"token": "t-1", **known, "input": None}).replace("null", DEEP)
    with wire.serving(wire.answer(body)) as server:
        found = HttpTransport(server.url, credential=lambda: None).poll("s-1", 1)
    assert found is not None
    assert (found.token, found.input) == ("t-1", Unreadable("it is nested too deeply"))

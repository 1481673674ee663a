import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbit_django.embedded.server.forms import BodyError, read_body

REGISTRATION = {"worker_id": "w", "runtime": "python", "contracts": [{"task_name": "a", "contract_version": "1"}]}


def status(form: str, raw: bytes) -> int:
    with pytest.raises(BodyError) as caught:
        read_body(form, raw)
    assert caught.value.answer.content_type == "text/plain; charset=utf-8"
    return caught.value.answer.status


@pytest.mark.parametrize(
    "raw",
    [b"", b"{", b"{'token': 1}", b'{"token": NaN}', b'{"token": "\xff"}', b'{"token": "\\ud800"}', b"[" * 100_000],
)
def test_what_is_not_json_is_400(raw: bytes) -> None:
    assert status("complete", raw) == 400


@pytest.mark.parametrize(
    ("form", "body"),
    [
        ("complete", []),
        ("complete", {}),
        ("complete", {"token": None}),
        ("complete", {"token": 1}),
        ("fail", {"token": "t"}),
        ("fail", {"error_code": "X"}),
        ("fail", {"token": "t", "error_code": "X", "retryable": "no"}),
        ("poll", {"worker_session_id": "s", "wait_ms": -1}),
        ("poll", {"worker_session_id": "s", "wait_ms": True}),
        ("poll", {"worker_session_id": "s", "wait_ms": "20"}),
        ("heartbeat", {}),
        ("unregister", {}),
        ("register", {key: value for key, value in REGISTRATION.items() if key != "runtime"}),
        ("register", REGISTRATION | {"contracts": {}}),
        ("register", REGISTRATION | {"contracts": [{"task_name": "a"}]}),
        ("register", REGISTRATION | {"contracts": ["a"]}),
        ("register", REGISTRATION | {"sdk": 1}),
        ("start", {"input": {}}),
    ],
)
def test_what_has_another_shape_is_422(form: str, body: Any) -> None:
    assert status(form, json.dumps(body).encode()) == 422


def test_the_missing_field_is_named() -> None:
    with pytest.raises(BodyError, match="missing field `error_code`"):
        read_body("fail", b'{"token": "t"}')


def test_unknown_members_and_nulls_are_left_out() -> None:
    raw = b'{"token": "t", "output": null, "more": [1]}'

    assert read_body("complete", raw) == {"token": "t"}
    assert read_body("cancel", b"{}") == {}


def test_pairs_of_surrogates_and_big_numbers_are_fine() -> None:
    raw = b'{"token": "t", "output": {"a": "\\ud83d\\ude00", "b": 18446744073709551617}}'

    assert read_body("complete", raw)["output"] == {"a": "\U0001f600", "b": 2**64 + 1}


@given(st.binary())
def test_any_bytes_are_read_or_refused(raw: bytes) -> None:
    assert status("heartbeat", raw) in {400, 422}

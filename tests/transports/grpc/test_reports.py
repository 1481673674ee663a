import json

import pytest

from orbit_django.exceptions import NotCarriedError, PayloadError, PayloadTooLargeError
from orbit_django.protocol import Kind
from orbit_django.transports.grpc.reports import message_of
from orbit_django.transports.proto.worker_pb2 import CompleteTaskRequest, FailTaskRequest
from orbit_django.transports.values import read

LIMIT = 4_096


def success(output: object, limit: int = LIMIT) -> bytes:
    return message_of(Kind.COMPLETE, json.dumps({"token": "t", "output": output}), limit)


def failure(details: object) -> FailTaskRequest:
    fields = {"token": "t", "error_code": "X", "error_message": "m", "retryable": True, "details": details}
    content = message_of(Kind.FAIL, json.dumps(fields), LIMIT)
    assert len(content) <= LIMIT
    return FailTaskRequest.FromString(content)


@pytest.mark.promise("D4")
def test_equal_texts_make_equal_bytes() -> None:
    body = json.dumps({"token": "t", "output": {name: {"b": 1, "a": 2} for name in "zyxwvutsrqponm"}})
    assert len({message_of(Kind.COMPLETE, body, LIMIT) for _ in range(20)}) == 1
    names = [f"name-{number}" for number in range(50)]
    orders = [json.dumps({"token": "t", "output": dict.fromkeys(each, 1)}) for each in (names, names[::-1])]
    assert len({message_of(Kind.COMPLETE, text, LIMIT) for text in orders}) == 1, "however members are kept in memory"
    assert CompleteTaskRequest.FromString(message_of(Kind.COMPLETE, body, LIMIT)).token == "t"


@pytest.mark.promise("E8")
def test_a_success_is_measured_as_the_message_that_it_becomes() -> None:
    ones = {"rows": [1] * 300}  # 13 bytes each, and 3 in JSON
    assert len(json.dumps(ones)) < 1_000
    size = len(success(ones))
    assert size > 3_000
    success(ones, size)
    with pytest.raises(PayloadTooLargeError) as caught:
        success(ones, size - 1)
    assert (caught.value.size, caught.value.limit) == (size, size - 1)


@pytest.mark.promise("E8")
def test_a_success_beyond_the_numbers_is_not_carried() -> None:
    with pytest.raises(NotCarriedError, match=r"\$\.id"):
        success({"id": 2**60})


@pytest.mark.parametrize("is_said", [True, False])
def test_a_failure_always_says_whether_it_may_be_tried_again(is_said: bool) -> None:
    fields = {"token": "t", "error_code": "X"} | ({"retryable": False} if is_said else {})
    message = FailTaskRequest.FromString(message_of(Kind.FAIL, json.dumps(fields), LIMIT))
    assert message.retryable is not is_said
    assert not message.HasField("details")


def test_large_numbers_in_details_are_told_as_texts() -> None:
    assert read(failure({"ids": [1, 2**60], "ok": True}).details) == {"ids": [1, str(2**60)], "ok": True}


@pytest.mark.promise("D3")
@pytest.mark.parametrize("kind", ["deep", "long"])
def test_details_that_do_not_fit_are_cut_to_a_text(kind: str) -> None:
    value: object = [1] * 1_300
    for _ in range({"deep": 60, "long": 0}[kind]):
        value = [value]
    found = read(failure(value).details)
    assert found["cut"] is True
    assert found["text"].startswith("[1" if kind == "long" else "[[[")


@pytest.mark.parametrize("body", ["{}", "[]", "7", "no", "[" * 100_000, '{"token":1,"output":{}}', '{"token":"t"}'])
@pytest.mark.parametrize("kind", Kind)
def test_a_text_that_is_no_report_is_an_error_of_its_own(kind: Kind, body: str) -> None:
    with pytest.raises((PayloadError, ValueError)) as caught:
        message_of(kind, body, LIMIT)
    assert not isinstance(caught.value, NotCarriedError)

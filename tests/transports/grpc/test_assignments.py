import math

import pytest
from google.protobuf.struct_pb2 import Value

from orbit_django.exceptions import NoAnswerError
from orbit_django.protocol import Unreadable
from orbit_django.transports.grpc.assignments import assignment_of
from orbit_django.transports.proto.worker_pb2 import ExecuteTaskRequest
from orbit_django.transports.values import write

TASK = {
    "token": "t-1", "execution_id": "e", "workflow": "W", "workflow_version": "1", "step_id": "s", "task_name": "a.b",
    "contract_version": "2", "idempotency_key": "e/s",
}  # fmt: skip


def answer(value: object = None, **fields: object) -> ExecuteTaskRequest:
    message = ExecuteTaskRequest(**(TASK | fields))
    write(message.input, value, room=10_000)
    return message


def nested(depth: int) -> object:
    value: object = 1
    for _ in range(depth):
        value = [value]
    return value


def test_every_field_is_read() -> None:
    content = answer({"n": 1}, attempt=3, redelivery=True, deadline_ms=1794736057501, timeout_ms=0).SerializeToString()
    found = assignment_of(content)
    assert found is not None
    assert {name: getattr(found, name) for name in TASK} == TASK
    assert (found.input, found.attempt, found.redelivery) == ({"n": 1}, 3, True)
    assert (found.deadline_ms, found.timeout_ms) == (1794736057501, 0)


def test_what_was_left_out_is_none() -> None:
    found = assignment_of(ExecuteTaskRequest(**TASK).SerializeToString())
    assert found is not None
    assert (found.input, found.attempt, found.deadline_ms, found.timeout_ms) == (None, 1, None, None)


@pytest.mark.parametrize("content", [b"", ExecuteTaskRequest(execution_id="e", task_name="x").SerializeToString()])
def test_an_empty_token_is_no_task(content: bytes) -> None:
    assert assignment_of(content) is None


@pytest.mark.promise("E7")
@pytest.mark.parametrize("place", ["before", "after"])
def test_an_input_that_is_nested_too_deeply_can_be_answered(place: str) -> None:
    bare, value = ExecuteTaskRequest(**TASK, timeout_ms=7), Value()
    write(value, nested(200), room=10_000)
    size = value.ByteSize()
    deep = bytes([8 << 3 | 2, size & 127 | 128, size >> 7]) + value.SerializeToString()
    rest = bare.SerializeToString() + bytes([99 << 3 & 127 | 128 | 5, 99 >> 4, 1, 2, 3, 4])  # and an unheard field
    found = assignment_of(deep + rest if place == "before" else rest + deep)
    assert found is not None
    assert (found.token, found.timeout_ms, type(found.input)) == ("t-1", 7, Unreadable)


@pytest.mark.promise("E7")
def test_an_input_with_a_number_that_json_does_not_have_can_be_answered() -> None:
    message = ExecuteTaskRequest(**TASK)
    message.input.number_value = math.inf
    found = assignment_of(message.SerializeToString())
    assert found is not None
    assert isinstance(found.input, Unreadable)


@pytest.mark.promise("E7")
@pytest.mark.parametrize(
    "content",
    [b"\xff", b"\x0a\x05ab", b"\x0f", b"\x0a\xff\xff\xff\xff\x0f", answer(nested(3)).SerializeToString()[:-1]],
)
def test_a_spoilt_answer_is_no_answer(content: bytes) -> None:
    with pytest.raises(NoAnswerError):
        assignment_of(content)


def test_every_cut_of_an_answer_is_no_answer_or_lacks_whole_fields() -> None:
    content = answer({"a": [1, "b"]}, attempt=2).SerializeToString(deterministic=True)
    for end in range(1, len(content)):
        try:
            found = assignment_of(content[:end])
        except NoAnswerError:
            continue
        assert found is None or found.token == "t-1"

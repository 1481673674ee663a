"""The judges of the laboratory judge whatever a broken package sends, and fail over nothing of it."""

import pytest

from tests.crash import invariants, weave_lab

SPOILT = [b"", b"[1]", b"{", b'{"output":{}}', b"\xff"]


@pytest.mark.parametrize("body", SPOILT)
def test_what_is_no_report_is_a_violation(body: bytes) -> None:
    for judge in (invariants.same_bytes, weave_lab.same_bytes):
        (found,) = judge([("complete", body)])
        assert found.startswith("complete: no report at all")


def test_two_texts_for_one_token_are_a_violation() -> None:
    one, other = b'{"token":"t","output":{}}', b'{"token":"t","output":{} }'
    assert list(invariants.same_bytes([("complete", one), ("complete", one)])) == []
    (found,) = invariants.same_bytes([("complete", one), ("complete", other)])
    assert "2 different bodies" in found


def test_two_completion_ids_for_one_lease_are_a_violation() -> None:
    one, other = (
        b'{"lease":{"task_id":"t","generation":1},"completion_id":"%s","output":{}}' % name for name in (b"a", b"b")
    )
    second = one.replace(b'"generation":1', b'"generation":2')
    assert list(weave_lab.same_bytes([("complete", one), ("complete", one), ("complete", second)])) == []
    (found,) = weave_lab.same_bytes([("complete", one), ("complete", other)])
    assert "2 different bodies for t, generation 1" in found

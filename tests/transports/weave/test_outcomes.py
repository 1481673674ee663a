"""What is reported to Weave, byte for byte, and what each answer means."""

import json
import threading
from itertools import pairwise
from typing import Any

import pytest

from orbit_django.exceptions import NoAnswerError, NotCarriedError, PayloadTooLargeError, RefusedError
from orbit_django.protocol import Kind
from tests.transports.weave.scene import Scene, capability, completion, failing

ID = "11111111-1111-4111-8111-111111111111"


@pytest.mark.clause("V12", "V40", "V50", "V70")
def test_a_success_is_completed_under_its_id_with_the_proof_as_it_came(scene: Scene) -> None:
    given = scene.poll()
    receipt = scene.complete(given, {"b": 1.50, "a": "ü"}, ID)
    task = scene.task(given)
    assert receipt.accepted
    assert (task["status"], task["receipts"][0]["completion_id"]) == ("completed", ID)
    assert json.loads(scene.bodies("complete")[0])["lease"] == json.loads(given.token)
    shown = json.loads(receipt.text)
    assert (shown["status"], shown["completion_id"], len(shown["accepted_output_hash"])) == ("completed", ID, 64)
    assert json.loads(given.token)["token"] not in receipt.text


@pytest.mark.clause("V50")
def test_the_stored_output_goes_out_byte_for_byte(scene: Scene) -> None:
    given = scene.poll()
    body = completion(given, {"text": ',"output":{"x":1}}', "n": 1e2}, ID)
    scene.transport.send(Kind.COMPLETE, body)
    assert scene.bodies("complete")[0].decode().endswith(body[body.index(',"output":') :])
    assert scene.task(given)["output"] == {"text": ',"output":{"x":1}}', "n": 100.0}


@pytest.mark.clause("V51", "V61", "V63", "V70")
@pytest.mark.parametrize(
    ("code", "retryable", "sent", "outcome"),
    [
        ("CARD_DECLINED", False, "CARD_DECLINED", "failed"),
        ("card declined", False, "CARD_DECLINED", "failed"),
        ("9 lives", False, "E9_LIVES", "failed"),
        ("X" * 200, False, "X" * 64, "failed"),
        ("TIMEOUT", False, "TIMEOUT_FINAL", "failed"),
        ("UNHANDLED_EXCEPTION", True, "TRANSIENT", "failed"),
        ("INVALID_INPUT", False, "INVALID_INPUT", "not_started"),
        ("UNKNOWN_TASK", True, "TRANSIENT", "not_started"),
        ("IDEMPOTENCY_CONFLICT", False, "IDEMPOTENCY_CONFLICT", "not_started"),
        ("EFFECT_UNCERTAIN", True, "TRANSIENT", "unknown"),
        ("RESULT_REFUSED", False, "RESULT_REFUSED", "unknown"),
    ],
)
def test_a_failure_says_by_its_code_whether_it_may_be_tried_again(
    scene: Scene, code: str, retryable: bool, sent: str, outcome: str
) -> None:
    given = scene.poll()
    receipt = scene.fail(given, code, retryable=retryable)
    error = json.loads(scene.bodies("fail")[0])["error"]
    assert (error["code"], error["outcome"], sorted(error)) == (sent, outcome, ["code", "completion_id", "outcome"])
    assert (receipt.accepted, json.loads(receipt.text)["status"]) == (True, "failed")


@pytest.mark.clause("V15", "V56")
def test_a_lost_answer_is_resolved_by_the_same_bytes_even_after_the_lease_has_expired(scene: Scene) -> None:
    given = scene.poll()
    body = completion(given, {}, ID)
    scene.faults.add("lost", "complete")
    with pytest.raises(NoAnswerError):
        scene.transport.send(Kind.COMPLETE, body)
    scene.weave.advance(60)
    assert scene.transport.send(Kind.COMPLETE, body).accepted
    assert len(set(scene.bodies("complete"))) == 1
    assert len(scene.task(given)["receipts"]) == 1


@pytest.mark.clause("V15", "V74")
@pytest.mark.parametrize("fault", ["drop", "garbage", "cut"])
def test_what_is_no_receipt_settles_nothing(scene: Scene, fault: str) -> None:
    given = scene.poll()
    body = completion(given, {}, ID)
    scene.faults.add(fault, "complete")
    with pytest.raises(NoAnswerError):
        scene.transport.send(Kind.COMPLETE, body)
    assert scene.transport.send(Kind.COMPLETE, body).accepted


@pytest.mark.clause("V74")
@pytest.mark.parametrize(
    "said",
    [{"completion_id": "other"}, {"status": "resolved"}, {"generation": 2}, {"unavailable": True}],
)
def test_a_receipt_of_something_else_is_none(scene: Scene, said: dict[str, Any]) -> None:
    given = scene.poll()
    scene.faults.add("set", "complete", value=said)
    with pytest.raises(NoAnswerError, match="receipt"):
        scene.complete(given)


@pytest.mark.clause("V20", "V21")
@pytest.mark.parametrize("code", ["WV-REQUEST-CAPACITY", "WV-OPERATION-CAPACITY"])
@pytest.mark.parametrize("kind", list(Kind))
def test_at_capacity_the_same_bytes_go_again_after_growing_waits(scene: Scene, code: str, kind: Kind) -> None:
    given = scene.poll()
    scene.faults.add("capacity", kind.value, value=code, times=5)
    body = completion(given, {}, ID) if kind is Kind.COMPLETE else failing(given)
    assert scene.transport.send(kind, body).accepted
    tries = scene.sent(kind.value)
    assert len(tries) == 6
    assert len({one.body for one in tries}) == 1
    waits = [later.at - earlier.at for earlier, later in pairwise(tries)]
    for wait, least in zip(waits, [0.05, 0.1, 0.2, 0.25, 0.25], strict=True):
        assert least <= wait < least + 2, "a busy machine may take its time"


@pytest.mark.clause("V20", "V84")
def test_another_429_is_not_sent_again(scene: Scene) -> None:
    given = scene.poll()
    scene.faults.add("status", "complete", value=(429, "WV-RUNTIME-LIMIT"), times=9)
    with pytest.raises(RefusedError, match="WV-RUNTIME-LIMIT") as caught:
        scene.complete(given)
    assert (caught.value.status, caught.value.is_from_runtime) == (429, True)
    assert len(scene.sent("complete")) == 1


@pytest.mark.clause("V80", "V81", "V82", "V83")
@pytest.mark.parametrize(
    ("status", "code", "is_benign"),
    [
        (409, "WV-LEASE", True),
        (409, "WV-COMPLETION-CONFLICT", False),
        (409, "WV-OPERATION-UNAVAILABLE", False),
        (403, "WV-FORBIDDEN", False),
        (404, "WV-NOT-FOUND", True),
    ],
)
@pytest.mark.parametrize("kind", list(Kind))
def test_final_refusals_are_receipts_with_a_reason(
    scene: Scene, status: int, code: str, is_benign: bool, kind: Kind
) -> None:
    given = scene.poll()
    scene.faults.add("status", kind.value, value=(status, code))
    receipt = scene.complete(given) if kind is Kind.COMPLETE else scene.fail(given)
    assert (receipt.accepted, receipt.is_benign, code in receipt.reason) == (False, is_benign, True)
    assert scene.transport.deliveries._leases.find(given.token) is None  # type: ignore[attr-defined]


@pytest.mark.clause("V13", "V14", "V85")
@pytest.mark.parametrize("status", [302, 403, 404, 409, 422])
def test_a_refusal_that_is_not_the_platforms_says_nothing_about_the_outcome(scene: Scene, status: int) -> None:
    given = scene.poll()
    scene.faults.add("html", "complete", value=status)
    with pytest.raises(RefusedError) as caught:
        scene.complete(given)
    assert not caught.value.is_from_runtime
    assert scene.complete(given).accepted


@pytest.mark.clause("V15")
@pytest.mark.parametrize("status", [500, 503, 408])
def test_trouble_of_the_platform_is_no_answer(scene: Scene, status: int) -> None:
    given = scene.poll()
    scene.faults.add("status", "complete", value=status)
    with pytest.raises(NoAnswerError):
        scene.complete(given)
    assert scene.complete(given).accepted


@pytest.mark.clause("V84")
def test_an_output_against_its_schema_leaves_the_lease_for_a_failure() -> None:
    strict = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}
    scene = Scene(capability(outputSchema=strict))
    try:
        given = scene.poll()
        with pytest.raises(RefusedError) as caught:
            scene.complete(given, {"id": "x"})
        assert (caught.value.status, caught.value.code, caught.value.is_from_runtime) == (422, "WV-VALIDATION", True)
        assert scene.transport.deliveries._leases.find(given.token) is not None  # type: ignore[attr-defined]
        assert scene.fail(given, "RESULT_REFUSED").accepted
        assert scene.task(given)["status"] in ("failed", "incident")
    finally:
        scene.close()


@pytest.mark.clause("V72")
def test_a_secret_in_an_output_is_rejected_once_and_for_all() -> None:
    schema = {"type": "object", "properties": {"key": {"type": "string", "x-secret": True}}}
    scene = Scene(capability(outputSchema=schema))
    try:
        given = scene.poll()
        body = completion(given, {"key": "hidden"}, ID)
        receipts = [scene.transport.send(Kind.COMPLETE, body) for _ in range(2)]
        assert receipts[0] == receipts[1]
        assert (receipts[0].accepted, receipts[0].is_benign) == (False, False)
        assert receipts[0].reason.startswith("rejected: WV-SCHEMA-SECRET_VALUE")
        assert json.loads(receipts[0].text)["reason_code"] == "WV-SCHEMA-SECRET_VALUE"
        assert "hidden" not in repr(receipts)
    finally:
        scene.close()


@pytest.mark.clause("V71")
def test_an_outcome_of_a_branch_that_ended_is_ignored_with_a_receipt(scene: Scene) -> None:
    given = scene.poll()
    scene.call("fail_branch", run_id=scene.task(given)["run_id"])
    receipt = scene.complete(given)
    assert (receipt.accepted, receipt.is_benign) == (False, True)
    assert json.loads(receipt.text)["status"] == "ignored"


@pytest.mark.clause("V73")
def test_a_receipt_without_evidence_acknowledges_what_was_accepted_before(scene: Scene) -> None:
    given = scene.poll()
    body = completion(given, {}, ID)
    assert scene.transport.send(Kind.COMPLETE, body).accepted
    scene.call("block", run_id=scene.task(given)["run_id"])
    receipt = scene.transport.send(Kind.COMPLETE, body)
    assert receipt.accepted
    assert json.loads(receipt.text)["unavailable"] is True
    assert "accepted_output_hash" not in receipt.text


@pytest.mark.clause("V52", "V80", "V81")
def test_another_id_after_an_accepted_outcome_is_a_lost_lease_and_another_body_a_conflict(scene: Scene) -> None:
    given = scene.poll()
    assert scene.complete(given, {}, ID).accepted
    assert "WV-LEASE" in scene.complete(given).reason
    assert "WV-COMPLETION-CONFLICT" in scene.complete(given, {"other": 1}, ID).reason


@pytest.mark.clause("V57", "V58")
def test_size_depth_and_numbers_are_looked_at_before_a_commit(scene: Scene) -> None:
    given = scene.poll()
    room = 1_048_576 - len('{"a":""}')
    scene.transport.check_report(Kind.COMPLETE, completion(given, {"a": "x" * room}))
    with pytest.raises(PayloadTooLargeError, match="Weave takes an output of 1048576"):
        scene.transport.check_report(Kind.COMPLETE, completion(given, {"a": "x" * (room + 1)}))
    deep: Any = 1
    for _ in range(31):
        deep = {"a": deep}
    scene.transport.check_report(Kind.COMPLETE, completion(given, deep))
    with pytest.raises(NotCarriedError):
        scene.transport.check_report(Kind.COMPLETE, completion(given, {"a": deep}))
    scene.transport.check_report(Kind.COMPLETE, completion(given, {"a": 2**53 - 1}))
    with pytest.raises(NotCarriedError, match=r"\$\.a"):
        scene.transport.check_report(Kind.COMPLETE, completion(given, {"a": 2**53}))
    scene.transport.check_report(Kind.FAIL, failing(given))


@pytest.mark.clause("V57")
def test_the_largest_and_deepest_output_that_passes_here_passes_there(scene: Scene) -> None:
    given = scene.poll()
    room = 1_048_576 - len('{"a":""}')
    assert scene.complete(given, {"a": "ü" * (room // 2)}).accepted
    given = scene.poll()
    deep: Any = 1
    for _ in range(31):
        deep = {"a": deep}
    assert scene.complete(given, deep).accepted


def test_outcomes_of_several_threads_go_out_at_once(scene: Scene) -> None:
    given = [scene.poll() for _ in range(8)]
    receipts: list[Any] = []
    threads = [threading.Thread(target=lambda one=one: receipts.append(scene.complete(one))) for one in given]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert [receipt.accepted for receipt in receipts] == [True] * 8

"""Outcomes, in the order of the rules: prior receipts, revocation, the lease, the content; and each kind of receipt."""

import hashlib
import json
import uuid

import pytest

from tests.embedded.weave.scene import MAIL, Scene, capability, is_problem

ONE = str(uuid.UUID(int=1))
SECRET = {"properties": {"pin": {"x-secret": True}}}


def test_a_completion_is_acknowledged(scene: Scene) -> None:
    lease = scene.ready().lease()
    receipt = scene.complete(lease, {"b": 1, "a": "ü"}, ONE).json
    canonical = '{"output":{"a":"ü","b":1},"status":"completed"}'

    assert receipt == {
        "task_id": lease["proof"]["task_id"],
        "generation": 1,
        "completion_id": ONE,
        "accepted_at": receipt["accepted_at"],
        "status": "completed",
        "accepted_output_hash": hashlib.sha256(canonical.encode()).hexdigest(),
    }
    assert scene.task(lease)["status"] == "completed"
    assert scene.task(lease)["run"]["status"] == "completed"


def test_a_failure_is_acknowledged_and_suspends_the_run(scene: Scene) -> None:
    lease = scene.ready().lease()
    receipt = scene.fail(lease, "BROKEN", ONE).json
    error = {"code": "BROKEN", "completion_id": ONE, "outcome": "unknown"}
    said = json.dumps({"output": error, "status": "failed"}, separators=(",", ":"), sort_keys=True)

    assert (receipt["status"], receipt["accepted_output_hash"]) == ("failed", hashlib.sha256(said.encode()).hexdigest())
    task = scene.task(lease)
    assert (task["status"], task["incident"], task["run"]["status"]) == ("failed", "WV-TASK-FAILED", "suspended")


def test_the_same_outcome_again_replays_its_receipt(scene: Scene) -> None:
    lease = scene.ready().lease()
    first = scene.complete(lease, {"a": 1, "b": [2]}, ONE)

    assert scene.complete(lease, {"a": 1, "b": [2]}, ONE).body == first.body
    assert scene.complete(lease, {"b": [2.0], "a": 1}, ONE).body == first.body  # order and spelling do not count
    scene.weave.advance(1_000)  # nor do the ends of the lease and of the run
    assert scene.complete(lease, {"a": 1, "b": [2]}, ONE).body == first.body
    assert len(scene.task(lease)["receipts"]) == 1


def test_a_changed_outcome_under_one_id_conflicts(scene: Scene) -> None:
    lease = scene.ready().lease()
    scene.complete(lease, {"a": 1}, ONE)

    assert is_problem(scene.complete(lease, {"a": 2}, ONE), 409, "WV-COMPLETION-CONFLICT")
    assert is_problem(scene.fail(lease, "BROKEN", ONE), 409, "WV-COMPLETION-CONFLICT")
    scene.weave.advance(1_000)
    assert is_problem(scene.complete(lease, {"a": 2}, ONE), 409, "WV-COMPLETION-CONFLICT")


def test_a_changed_failure_under_one_id_conflicts(scene: Scene) -> None:
    lease = scene.ready().lease()
    first = scene.fail(lease, "BROKEN", ONE)

    assert scene.fail(lease, "BROKEN", ONE, outcome="unknown").body == first.body
    assert is_problem(scene.fail(lease, "OTHER", ONE), 409, "WV-COMPLETION-CONFLICT")
    assert is_problem(scene.fail(lease, "BROKEN", ONE, outcome="failed"), 409, "WV-COMPLETION-CONFLICT")


def test_one_id_from_two_generations_conflicts_though_the_bodies_are_equal(scene: Scene) -> None:
    lease = scene.ready().lease(retry={"maxAttempts": 2})
    scene.fail(lease, "TRANSIENT", ONE)
    scene.weave.recover()
    scene.weave.advance(1)
    (second,) = scene.claim().json
    assert is_problem(scene.fail(second, "TRANSIENT", ONE), 409, "WV-COMPLETION-CONFLICT")
    assert scene.complete(second).status == 200


def test_a_second_id_after_an_accepted_outcome_has_no_lease(scene: Scene) -> None:
    lease = scene.ready().lease()
    scene.complete(lease, {"a": 1})
    assert is_problem(scene.complete(lease, {"a": 1}), 409, "WV-LEASE")
    assert is_problem(scene.fail(lease), 409, "WV-LEASE")


def test_ownership_is_checked_before_any_replay(scene: Scene) -> None:
    lease = scene.ready().lease()
    scene.complete(lease, None, ONE)
    assert is_problem(scene.complete(lease, None, ONE, token="x"), 409, "WV-LEASE")
    scene.call("revoke_instance", worker_id=scene.worker_id)
    assert is_problem(scene.complete(lease, None, ONE), 409, "WV-LEASE")


@pytest.mark.parametrize("side", ["action", "capability"])
def test_an_output_that_does_not_match_leaves_the_lease(scene: Scene, side: str) -> None:
    schema = {"type": "object", "required": ["id"]}
    scene.ready(capability(outputSchema=schema if side == "capability" else {}))
    lease = scene.lease(output_schema=schema if side == "action" else {})

    assert is_problem(scene.complete(lease, {}, ONE), 422, "WV-VALIDATION")
    assert scene.task(lease)["receipts"] == []
    assert scene.heartbeat(lease).status == 200
    assert scene.complete(lease, {"id": 1}, ONE).json["status"] == "completed"  # the same id, since nothing was kept


def test_after_a_mismatch_a_failure_may_be_reported(scene: Scene) -> None:
    lease = scene.ready(capability(outputSchema={"type": "string"})).lease()
    assert is_problem(scene.complete(lease, 1, ONE), 422, "WV-VALIDATION")
    assert scene.fail(lease, "BROKEN", ONE).json["status"] == "failed"


@pytest.mark.parametrize("side", ["action", "capability"])
def test_a_secret_output_is_rejected_for_good(scene: Scene, side: str) -> None:
    scene.ready(capability(outputSchema=SECRET if side == "capability" else {}))
    lease = scene.lease(output_schema=SECRET if side == "action" else {})
    receipt = scene.complete(lease, {"pin": "1234"}, ONE)

    assert receipt.status == 200
    assert (receipt.json["status"], receipt.json["accepted_output_hash"]) == ("rejected", None)
    assert receipt.json["reason_code"] == "WV-SCHEMA-SECRET_VALUE"
    task = scene.task(lease)
    assert (task["status"], task["run"]["status"]) == ("incident", "suspended")
    assert "1234" not in str(task)
    for again in (scene.complete(lease, {"fine": 1}, ONE), scene.fail(lease, "BROKEN", ONE)):
        assert again.body == receipt.body
    assert is_problem(scene.complete(lease, {"fine": 1}), 409, "WV-LEASE")


def test_an_output_that_cannot_be_classified_is_rejected(scene: Scene) -> None:
    lease = scene.ready().lease(output_schema={"$ref": "#/nowhere"})
    assert scene.complete(lease, {}).json["reason_code"] == "WV-SCHEMA-CLASSIFICATION"


def test_failures_are_not_classified(scene: Scene) -> None:
    lease = scene.ready(capability(outputSchema={"writeOnly": True})).lease()
    assert scene.fail(lease).json["status"] == "failed"


@pytest.mark.parametrize("control", ["cancel", "fail_branch"])
def test_after_a_revocation_one_delivery_is_noted_and_ignored(scene: Scene, control: str) -> None:
    lease = scene.ready().lease()
    scene.call(control, run_id=scene.run_id(lease))

    assert is_problem(scene.heartbeat(lease), 409, "WV-LEASE")
    receipt = scene.complete(lease, {"a": 1}, ONE)
    assert (receipt.status, receipt.json["status"]) == (200, "ignored")
    assert receipt.json["accepted_output_hash"] is not None
    assert scene.complete(lease, {"a": 1}, ONE).body == receipt.body
    assert is_problem(scene.complete(lease, {"a": 2}, ONE), 409, "WV-COMPLETION-CONFLICT")
    assert is_problem(scene.complete(lease, {"a": 1}), 409, "WV-LEASE")
    assert scene.task(lease)["status"] == "cancelled"


def test_a_failure_after_a_revocation_is_ignored_too(scene: Scene) -> None:
    lease = scene.ready().lease()
    scene.call("cancel", run_id=scene.run_id(lease))
    assert scene.fail(lease).json["status"] == "ignored"
    assert scene.task(lease)["run"]["status"] == "cancelled"


def test_a_lease_that_had_run_out_before_the_revocation_is_just_gone(scene: Scene) -> None:
    lease = scene.ready().lease()
    scene.weave.advance(15)
    scene.call("cancel", run_id=scene.run_id(lease))
    assert is_problem(scene.complete(lease), 409, "WV-LEASE")


def test_a_timeout_of_the_run_grants_no_receipt(scene: Scene) -> None:
    lease = scene.ready().lease()
    scene.call("time_out", run_id=scene.run_id(lease))
    assert is_problem(scene.complete(lease), 409, "WV-LEASE")
    assert scene.task(lease)["run"]["status"] == "failed"
    with pytest.raises(Exception, match="has ended: it is failed"):
        scene.create(run_id=scene.run_id(lease))


def test_a_late_secret_is_rejected_without_moving_the_run(scene: Scene) -> None:
    lease = scene.ready(capability(outputSchema=SECRET)).lease()
    scene.call("cancel", run_id=scene.run_id(lease))
    assert scene.complete(lease, {"pin": 1}).json["status"] == "rejected"
    assert scene.task(lease)["run"]["status"] == "cancelled"


def test_on_a_blocked_run_receipts_come_without_their_content(scene: Scene) -> None:
    lease = scene.ready().lease()
    scene.complete(lease, {"a": 1}, ONE)
    scene.call("block", run_id=scene.run_id(lease))
    for output in ({"a": 1}, {"a": 2}, "x" * 1_100_000):
        reply = scene.complete(lease, output, ONE)
        assert reply.status == 200
        assert reply.json == {
            "task_id": lease["proof"]["task_id"],
            "generation": 1,
            "completion_id": ONE,
            "accepted_at": reply.json["accepted_at"],
            "status": "completed",
            "unavailable": True,
            "payload_match": "unavailable",
            "omissions": [{"path": "/accepted_output_hash", "reason": "uncertain_derived"}],
        }
    assert is_problem(scene.complete(lease, {"a": 1}), 409, "WV-LEASE")


def test_on_a_blocked_run_a_rejection_stays_as_it_is(scene: Scene) -> None:
    lease = scene.ready(capability(outputSchema=SECRET)).lease()
    receipt = scene.complete(lease, {"pin": 1}, ONE)
    scene.call("block", run_id=scene.run_id(lease))
    assert scene.complete(lease, {"pin": 1}, ONE).body == receipt.body


def test_a_blocked_run_takes_nothing_new_and_no_cancellation_makes_that_ignored(scene: Scene) -> None:
    lease = scene.ready().lease()
    waiting = scene.create(run_id=scene.run_id(lease))
    scene.call("block", run_id=scene.run_id(lease))

    assert scene.claim().json == []
    assert is_problem(scene.heartbeat(lease), 409, "WV-LEASE")
    assert is_problem(scene.complete(lease), 409, "WV-LEASE")
    scene.call("cancel", run_id=scene.run_id(lease))
    assert is_problem(scene.complete(lease), 409, "WV-LEASE")
    assert scene.call("task", task_id=waiting)["status"] == "cancelled"


def test_the_end_of_the_lease_between_check_and_commit_is_a_403(scene: Scene) -> None:
    lease = scene.ready().lease()
    scene.faults.add("stall", "complete")
    assert is_problem(scene.complete(lease), 403, "WV-FORBIDDEN")
    assert scene.task(lease)["receipts"] == []


def test_a_run_with_too_much_state_takes_no_more(scene: Scene) -> None:
    lease = scene.ready().lease()
    with scene.weave.changing() as platform:
        platform.settlement.run_budget = 10
    reply = scene.complete(lease, "x" * 9)
    assert is_problem(reply, 429, "WV-RUNTIME-LIMIT")
    assert scene.complete(lease, "x" * 8).status == 200


@pytest.mark.parametrize("why", ["sibling", "pause", "suspend"])
def test_a_suspended_run_refuses_leases_but_not_outcomes(scene: Scene, why: str) -> None:
    first = scene.ready().lease()
    run_id = scene.run_id(first)
    second = scene.lease(run_id=run_id)
    waiting = scene.create(run_id=run_id)
    if why == "sibling":
        scene.fail(second)
    else:
        scene.call(why, run_id=run_id)

    for path in ("heartbeat", "context"):
        assert is_problem(scene.post(f"/tasks/{path}", first["proof"]), 409, "WV-LEASE")
    secret = {"lease": first["proof"], "connection_revision_id": ONE, "slot": "key"}
    assert is_problem(scene.post("/tasks/credentials", secret), 409, "WV-LEASE")
    assert scene.claim().json == []
    assert scene.complete(first, {"a": 1}).json["status"] == "completed"
    if why == "sibling":
        scene.weave.recover()
        scene.call("accept_output", task_id=second["proof"]["task_id"], output=None)
    else:
        scene.call("resume", run_id=run_id)
        scene.complete(second)
    (third,) = scene.claim().json
    assert third["proof"]["task_id"] == waiting
    assert scene.complete(third).status == 200
    assert scene.task(third)["run"]["status"] == "completed"


def test_one_resolved_branch_does_not_clear_the_incident_of_another(scene: Scene) -> None:
    first = scene.ready().lease()
    second, third = (scene.lease(run_id=scene.run_id(first)) for _ in range(2))
    scene.fail(first)
    scene.fail(second)
    scene.weave.recover()
    scene.call("accept_output", task_id=first["proof"]["task_id"], output=1)
    assert is_problem(scene.heartbeat(third), 409, "WV-LEASE")
    scene.call("accept_output", task_id=second["proof"]["task_id"], output=1)
    assert scene.heartbeat(third).status == 200


def test_a_result_behind_a_barrier_counts_when_it_is_lifted(scene: Scene) -> None:
    lease = scene.ready().lease()
    scene.call("pause", run_id=scene.run_id(lease))
    assert scene.complete(lease, 1).json["status"] == "completed"
    assert scene.task(lease)["run"]["status"] == "waiting"
    scene.call("resume", run_id=scene.run_id(lease))
    assert scene.task(lease)["run"]["status"] == "completed"


def test_what_cannot_be_created_is_said(scene: Scene) -> None:
    with pytest.raises(Exception, match=f"no release that was admitted offers {MAIL}"):
        scene.create()

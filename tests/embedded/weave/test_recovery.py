"""Recovery is a step of its own, and decides by code, side effect, attempts, time and deadline."""

import pytest

from tests.embedded.waits import Background
from tests.embedded.weave.scene import Scene

SAFE = ("read_only", "idempotent", "idempotency_key")


def outcome(scene: Scene, lease: dict) -> tuple[str, str | None, str]:
    task = scene.task(lease)
    return task["status"], task["incident"], task["run"]["status"]


def test_an_expired_lease_is_nobodys_until_recovery_has_decided(scene: Scene) -> None:
    lease = scene.ready().lease(retry={"maxAttempts": 2})
    scene.weave.advance(60)
    assert scene.claim().json == []
    assert scene.weave.recover() == 1
    assert outcome(scene, lease) == ("ready", None, "waiting")
    assert scene.claim().json == []  # not before the pause is over
    scene.weave.advance(1)
    assert len(scene.claim().json) == 1


def test_a_lease_in_force_is_left_alone(scene: Scene) -> None:
    scene.ready().lease(retry={"maxAttempts": 2})
    scene.weave.advance(14)
    assert scene.weave.recover() == 0


@pytest.mark.parametrize("code", ["TRANSIENT", "UNAVAILABLE", "RATE_LIMITED", "TIMEOUT"])
@pytest.mark.parametrize("outcome_said", ["not_started", "failed", "unknown"])
def test_four_codes_are_tried_again_whatever_the_outcome_says(scene: Scene, code: str, outcome_said: str) -> None:
    lease = scene.ready().lease(retry={"maxAttempts": 2})
    scene.fail(lease, code, outcome=outcome_said)
    assert outcome(scene, lease) == ("failed", "WV-TASK-FAILED", "suspended")
    assert scene.weave.recover() == 1
    assert outcome(scene, lease) == ("ready", None, "waiting")


@pytest.mark.parametrize("code", ["HANDLER_FAILED", "HANDLER_UNAVAILABLE", "TRANSIENT_X"])
def test_no_other_code_is(scene: Scene, code: str) -> None:
    lease = scene.ready().lease(retry={"maxAttempts": 5})
    scene.fail(lease, code, outcome="not_started")
    scene.weave.recover()
    assert outcome(scene, lease) == ("incident", "WV-TASK-RETRIES-EXHAUSTED", "suspended")


@pytest.mark.parametrize("is_reported", [True, False])
@pytest.mark.parametrize("side_effect", [*SAFE, "non_idempotent"])
def test_only_safe_effects_are_tried_again(scene: Scene, side_effect: str, is_reported: bool) -> None:
    lease = scene.ready().lease(retry={"maxAttempts": 2}, side_effect=side_effect)
    if is_reported:
        scene.fail(lease, "TRANSIENT", outcome="not_started")
    else:
        scene.weave.advance(15)
    scene.weave.recover()
    is_safe = side_effect in SAFE
    ends = ("ready", None, "waiting") if is_safe else ("incident", "WV-TASK-AMBIGUOUS", "suspended")
    assert outcome(scene, lease) == ends


def test_by_default_nothing_is_tried_again(scene: Scene) -> None:
    lease = scene.ready().lease()
    scene.weave.advance(15)
    scene.weave.recover()
    assert outcome(scene, lease) == ("incident", "WV-TASK-RETRIES-EXHAUSTED", "suspended")


def test_the_pause_doubles_up_to_its_limit(scene: Scene) -> None:
    retry = {"maxAttempts": 5, "initialDelaySeconds": 2, "maxDelaySeconds": 7}
    lease = scene.ready().lease(retry=retry)
    for pause in (2, 4, 7, 7):
        scene.fail(lease, "TRANSIENT")
        scene.weave.recover()
        scene.weave.advance(pause - 0.1)
        assert scene.claim().json == []
        scene.weave.advance(0.1)
        (lease,) = scene.claim().json
    scene.fail(lease, "TRANSIENT")
    scene.weave.recover()
    assert outcome(scene, lease)[1] == "WV-TASK-RETRIES-EXHAUSTED"


@pytest.mark.parametrize(("pause", "incident"), [(4.9, None), (5.0, "WV-TASK-RETRIES-EXHAUSTED")])
def test_the_pause_has_to_fit_before_the_deadline(scene: Scene, pause: float, incident: str | None) -> None:
    retry = {"maxAttempts": 2, "initialDelaySeconds": pause}
    lease = scene.ready().lease(retry=retry, timeout_seconds=10)
    scene.weave.advance(5)
    scene.fail(lease, "TIMEOUT")
    scene.weave.recover()
    assert outcome(scene, lease)[1] == incident


def test_a_task_that_waits_past_its_deadline_is_an_incident(scene: Scene) -> None:
    lease = scene.ready().lease(retry={"maxAttempts": 2, "initialDelaySeconds": 5}, timeout_seconds=10)
    scene.fail(lease, "TIMEOUT")
    scene.weave.recover()
    scene.weave.advance(10)
    assert scene.weave.recover() == 1
    assert outcome(scene, lease) == ("incident", "WV-TASK-DEADLINE", "suspended")


def test_a_person_may_allow_one_more_attempt(scene: Scene) -> None:
    lease = scene.ready().lease()
    scene.fail(lease)
    scene.weave.recover()
    scene.call("retry_safe", task_id=lease["proof"]["task_id"])
    (second,) = scene.claim().json
    assert (second["proof"]["generation"], second["operation_key"]) == (2, lease["operation_key"])
    assert second["deadline"] == lease["deadline"]
    assert scene.complete(second).status == 200


def test_a_person_cannot_allow_what_is_not_safe(scene: Scene) -> None:
    lease = scene.ready().lease(side_effect="non_idempotent")
    scene.fail(lease)
    scene.weave.recover()
    with pytest.raises(Exception, match="not safe to try again"):
        scene.call("retry_safe", task_id=lease["proof"]["task_id"])


def test_ended_and_blocked_runs_are_left_alone(scene: Scene) -> None:
    leases = [scene.ready().lease(retry={"maxAttempts": 2}) for _ in range(2)]
    scene.call("cancel", run_id=scene.run_id(leases[0]))
    scene.call("block", run_id=scene.run_id(leases[1]))
    scene.weave.advance(15)
    assert scene.weave.recover() == 0


def test_ten_decisions_of_a_kind_are_made_at_once(scene: Scene) -> None:
    scene.ready()
    scene.register(capacity=12)
    for _ in range(12):
        scene.create()
    assert len(scene.claim(12).json) == 12
    scene.weave.advance(15)
    assert [scene.weave.recover() for _ in range(3)] == [10, 2, 0]


def test_recovery_comes_by_itself() -> None:
    scene = Scene(recovery_seconds=0.02)
    try:
        lease = scene.ready().lease()
        scene.weave.advance(15)

        def wait() -> None:
            while outcome(scene, lease)[0] == "leased":
                scene.weave.pause(0.01)

        assert Background(wait).join() is None
        assert outcome(scene, lease)[0] == "incident"
    finally:
        scene.close()

"""Claims and heartbeats: 15 s by the server's clock, one deadline for all attempts, and whose lease it is."""

import uuid
from datetime import datetime

from tests.embedded.weave.scene import MAIL, Scene, capability, is_problem


def seconds_left(scene: Scene, lease: dict, member: str = "expires_at") -> float:
    moment = datetime.fromisoformat(lease[member])
    assert moment.utcoffset() is not None
    return round(moment.timestamp() - scene.weave.clock.wall(), 3)


def test_a_lease_says_everything_about_its_task(scene: Scene) -> None:
    task_id = scene.ready().create(input={"to": "ü"}, step="mail")
    (lease,) = scene.claim().json
    task = scene.call("task", task_id=task_id)

    assert lease["proof"] | {"token": ""} == {
        "task_id": task_id,
        "generation": 1,
        "owner": scene.worker_id,
        "token": "",
    }
    assert len(lease["proof"]["token"]) == 43
    assert lease["input"] == {"to": "ü"}
    assert lease["operation_key"] == f"{task['run_id']}:mail"
    assert (lease["capability"], lease["worker_release_id"]) == (MAIL, scene.release_id)
    assert seconds_left(scene, lease, "deadline") == 600
    assert lease.keys() == {
        "proof", "input", "operation_key", "deadline", "expires_at", "capability", "worker_release_id",
    }  # fmt: skip


def test_of_a_token_only_the_hash_is_kept(scene: Scene) -> None:
    lease = scene.ready().lease()
    assert lease["proof"]["token"] not in str(scene.task(lease))


def test_a_lease_lasts_15_seconds(scene: Scene) -> None:
    lease = scene.ready().lease()
    assert seconds_left(scene, lease) == 15
    scene.weave.advance(14.9)
    assert scene.heartbeat(lease).status == 200
    scene.weave.advance(15)
    assert is_problem(scene.heartbeat(lease), 409, "WV-LEASE")
    assert is_problem(scene.complete(lease), 409, "WV-LEASE")


def test_a_heartbeat_counts_from_now_and_answers_the_whole_lease(scene: Scene) -> None:
    lease = scene.ready().lease(input={"n": 1})
    scene.weave.advance(4)
    renewed = scene.heartbeat(lease).json

    assert seconds_left(scene, renewed) == 15
    assert renewed == lease | {"expires_at": renewed["expires_at"]}


def test_no_lease_goes_beyond_the_deadline(scene: Scene) -> None:
    lease = scene.ready().lease(timeout_seconds=20)
    scene.weave.advance(10)
    assert seconds_left(scene, scene.heartbeat(lease).json) == 10
    scene.weave.advance(10)
    assert is_problem(scene.heartbeat(lease), 409, "WV-LEASE")


def test_all_attempts_share_the_deadline_and_the_operation_key(scene: Scene) -> None:
    first = scene.ready().lease(retry={"maxAttempts": 2})
    scene.weave.advance(15)
    scene.weave.recover()
    scene.weave.advance(1)
    (second,) = scene.claim().json

    assert second["proof"]["generation"] == 2
    assert second["proof"]["token"] != first["proof"]["token"]
    assert (second["deadline"], second["operation_key"]) == (first["deadline"], first["operation_key"])
    assert is_problem(scene.heartbeat(first), 409, "WV-LEASE")
    assert is_problem(scene.complete(first), 409, "WV-LEASE")
    assert scene.complete(second).status == 200


def test_an_attempt_that_was_overtaken_has_no_rights_though_its_time_is_not_over(scene: Scene) -> None:
    first = scene.ready().lease(retry={"maxAttempts": 2})
    scene.fail(first, "TRANSIENT")
    scene.weave.recover()
    scene.weave.advance(1)
    (second,) = scene.claim().json

    assert second["proof"]["generation"] == 2
    assert is_problem(scene.heartbeat(first), 409, "WV-LEASE")
    assert is_problem(scene.complete(first), 409, "WV-LEASE")
    assert scene.heartbeat(second).status == 200


def test_a_claim_brings_up_to_its_limit_in_the_order_of_ids(scene: Scene) -> None:
    made = sorted(scene.ready().create() for _ in range(5))
    first, second = scene.claim(2).json, scene.claim(100).json
    assert [lease["proof"]["task_id"] for lease in [*first, *second]] == made
    assert len(first) == 2


def test_an_instance_holds_no_more_than_its_capacity(scene: Scene) -> None:
    scene.ready()
    scene.register(capacity=2)
    for _ in range(4):
        scene.create(retry={"maxAttempts": 2})

    assert len(scene.claim().json) == 2
    assert scene.claim().json == []
    scene.weave.advance(15)  # leases that have run out hold no place
    assert len(scene.claim().json) == 2


def test_a_claim_brings_only_what_the_instance_offers(scene: Scene) -> None:
    other = "mail.read@1.0.0"
    scene.ready(capability(), capability(other))
    scene.register(MAIL)
    scene.create(other)
    mine = scene.create(MAIL)
    assert [lease["proof"]["task_id"] for lease in scene.claim().json] == [mine]


def test_a_task_is_pinned_to_its_release(scene: Scene) -> None:
    scene.ready()
    scene.create()
    scene.ready(digest="sha256:" + "b" * 64)
    assert scene.claim().json == []


def test_a_task_whose_deadline_has_passed_is_not_handed_out(scene: Scene) -> None:
    scene.ready().create(timeout_seconds=5)
    scene.weave.advance(5)
    assert scene.claim().json == []


def test_claims_of_an_instance_that_is_unknown_or_not_ones_own(scene: Scene) -> None:
    scene.ready()
    scene.call("add_principal", name="other", secret="s", roles=["worker"])
    assert is_problem(scene.claim(who="other"), 403, "WV-FORBIDDEN")
    scene.worker_id = str(uuid.uuid4())
    assert is_problem(scene.claim(), 409, "WV-LEASE")


def test_each_part_of_a_proof_is_checked(scene: Scene) -> None:
    lease = scene.ready().lease()
    mine = scene.worker_id
    scene.register()
    second = scene.worker_id

    for call in (scene.heartbeat, scene.complete):
        assert is_problem(call(lease, task_id=str(uuid.uuid4())), 404, "WV-NOT-FOUND")
        assert is_problem(call(lease, generation=2), 409, "WV-LEASE")
        assert is_problem(call(lease, token="x" * 43), 409, "WV-LEASE")
        assert is_problem(call(lease, owner=second), 409, "WV-LEASE")
        assert is_problem(call(lease, owner=str(uuid.uuid4())), 409, "WV-LEASE")
    scene.call("add_principal", name="other", secret="s", roles=["worker"])
    assert is_problem(scene.heartbeat(lease, who="other"), 403, "WV-FORBIDDEN")
    assert is_problem(scene.complete(lease, who="other"), 403, "WV-FORBIDDEN")
    assert scene.heartbeat(lease, owner=mine).status == 200


def test_a_task_of_another_scope_is_unknown(scene: Scene) -> None:
    lease = scene.ready().lease()
    elsewhere = scene.prefix.rsplit("/", 1)[0] + f"/{uuid.uuid4()}"
    scope = "/".join(elsewhere.split("/")[4::2])
    scene.call("add_principal", name="other", secret="s", roles=["worker"], scopes=[scope])
    scene.prefix = elsewhere
    assert is_problem(scene.heartbeat(lease, who="other"), 404, "WV-NOT-FOUND")
    assert is_problem(scene.claim(), 409, "WV-LEASE")

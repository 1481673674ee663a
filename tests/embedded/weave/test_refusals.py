"""What a worker may send again, call by call: refusals for capacity; and what it must not take for one."""

import uuid
from typing import Any

import pytest

from tests.embedded.weave.scene import MAIL, Scene, is_problem
from tests.embedded.wire import Reply

CALLS = ("claim", "heartbeat", "context", "credentials", "complete", "fail")
GOOD = {"claim": list, "heartbeat": dict, "context": dict, "credentials": dict, "complete": dict, "fail": dict}


@pytest.fixture
def bodies(scene: Scene) -> dict[str, Any]:
    """A body for each call, all of them good at the same time."""
    scene.ready(credential_capabilities=[MAIL])
    revision = scene.call("add_connection", secrets={"key": "s3"})
    scene.call("grant_connection", release_id=scene.release_id, revision_id=revision, capability=MAIL)
    lease = scene.lease(connection_revision_id=revision)["proof"]
    one, two = str(uuid.uuid4()), str(uuid.uuid4())
    scene.create()
    return {
        "claim": {"worker_id": scene.worker_id, "limit": 1},
        "heartbeat": lease,
        "context": lease,
        "credentials": {"lease": lease, "connection_revision_id": revision, "slot": "key"},
        "complete": {"lease": lease, "completion_id": one, "output": 1},
        "fail": {"lease": lease, "error": {"completion_id": two, "code": "BROKEN"}},
    }


def send(scene: Scene, call: str, bodies: dict[str, Any]) -> Reply:
    return scene.post(f"/tasks/{call}", bodies[call])


def is_untouched(scene: Scene) -> bool:
    """Say whether nothing was executed: one task is leased by its first attempt, the other one waits."""
    tasks = scene.call("tasks")
    statuses = sorted(task["status"] for task in tasks)
    return statuses == ["leased", "ready"] and not any(task["receipts"] for task in tasks) and not scene.call("audits")


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("code", ["WV-REQUEST-CAPACITY", "WV-OPERATION-CAPACITY"])
def test_a_refusal_for_capacity_came_before_anything_and_the_same_bytes_do(
    scene: Scene, bodies: dict[str, Any], call: str, code: str
) -> None:
    scene.faults.add("capacity", call, value=code, times=2)
    for _ in range(2):
        assert is_problem(send(scene, call, bodies), 429, code)
    assert is_untouched(scene)
    reply = send(scene, call, bodies)
    assert reply.status == 200
    assert isinstance(reply.json, GOOD[call])
    assert len({exchange.body for exchange in scene.weave.recorder.of(call)[-3:]}) == 1


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(
    ("status", "code"),
    [
        (429, "WV-RUNTIME-LIMIT"),
        (401, "WV-UNAUTHENTICATED"),
        (403, "WV-FORBIDDEN"),
        (409, "WV-OPERATION-UNAVAILABLE"),
        (500, "WV-INTERNAL"),
        (503, "WV-COMPATIBILITY"),
    ],
)
def test_other_refusals_can_be_had_from_every_call(
    scene: Scene, bodies: dict[str, Any], call: str, status: int, code: str
) -> None:
    scene.faults.add("status", call, value=(status, code))
    assert is_problem(send(scene, call, bodies), status, code)
    assert is_untouched(scene)
    assert send(scene, call, bodies).status == 200


@pytest.mark.parametrize("call", CALLS)
def test_a_connection_can_break_before_every_call_and_after_it(scene: Scene, bodies: dict[str, Any], call: str) -> None:
    scene.faults.add("drop", call)
    with pytest.raises(OSError, match="closed connection"):
        send(scene, call, bodies)
    assert is_untouched(scene)
    scene.faults.add("lost", call)
    with pytest.raises(OSError, match="closed connection"):
        send(scene, call, bodies)
    assert is_untouched(scene) is (call in {"heartbeat", "context"})


@pytest.mark.parametrize("call", CALLS)
def test_a_success_of_every_call_can_come_malformed(scene: Scene, bodies: dict[str, Any], call: str) -> None:
    scene.faults.add("garbage", call)
    reply = send(scene, call, bodies)
    assert reply.status == 200
    with pytest.raises(ValueError, match=r"."):
        _ = reply.json

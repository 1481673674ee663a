"""Faults: what was executed, what was not, and what the client saw."""

import http.client
import json

import pytest

from orbit_django.embedded.fault import Fault
from orbit_django.embedded.weave.faults import KINDS, explain, parse_fault
from orbit_django.exceptions import ConfigurationError
from tests.embedded.waits import Background
from tests.embedded.weave.scene import Scene, is_problem

ONE = "00000000-0000-4000-8000-000000000001"


def test_a_lost_answer_was_committed(scene: Scene) -> None:
    lease = scene.ready().lease()
    scene.faults.add("lost", "complete")
    with pytest.raises(OSError, match="closed connection without response"):
        scene.complete(lease, 1, ONE)
    assert len(scene.task(lease)["receipts"]) == 1
    assert scene.complete(lease, 1, ONE).json["status"] == "completed"


def test_a_cut_connection_executed_nothing(scene: Scene) -> None:
    lease = scene.ready().lease()
    scene.faults.add("drop", "complete")
    with pytest.raises(OSError, match="closed connection without response"):
        scene.complete(lease, 1, ONE)
    assert scene.task(lease)["receipts"] == []
    assert scene.complete(lease, 1, ONE).status == 200


def test_a_status_executed_nothing(scene: Scene) -> None:
    lease = scene.ready().lease()
    scene.faults.add("status", "fail", value=(500, "WV-INTERNAL"))
    scene.faults.add("status", "fail", value=503)
    scene.faults.add("status", "fail", value=(429, "WV-RUNTIME-LIMIT"))
    scene.faults.add("status", "fail", value=(409, "WV-LEGACY-UNAVAILABLE"))
    assert is_problem(scene.fail(lease), 500, "WV-INTERNAL")
    assert is_problem(scene.fail(lease), 503, "WV-COMPATIBILITY")
    assert is_problem(scene.fail(lease), 429, "WV-RUNTIME-LIMIT")
    reply = scene.fail(lease)
    assert is_problem(reply, 409, "WV-LEGACY-UNAVAILABLE")
    assert reply.json["result"] == {}
    assert scene.task(lease)["receipts"] == []


def test_a_page_of_a_proxy(scene: Scene) -> None:
    scene.ready()
    scene.faults.add("html", "claim")
    reply = scene.claim()
    assert (reply.status, reply.headers["content-type"]) == (502, "text/html; charset=utf-8")


@pytest.mark.parametrize("kind", ["garbage", "answer"])
def test_a_success_can_come_malformed(scene: Scene, kind: str) -> None:
    lease = scene.ready().lease()
    scene.faults.add(kind, "complete", value={"answer": [1], "garbage": None}[kind])
    reply = scene.complete(lease, 1, ONE)
    assert reply.status == 200
    if kind == "answer":
        assert reply.json == [1]
    else:
        with pytest.raises(ValueError, match=r"Unterminated|Expecting"):
            json.loads(reply.body)
    assert len(scene.task(lease)["receipts"]) == 1


def test_an_answer_can_break_off(scene: Scene) -> None:
    lease = scene.ready().lease()
    scene.faults.add("cut", "heartbeat")
    with pytest.raises(http.client.IncompleteRead):
        scene.heartbeat(lease)


def test_members_of_an_answer_can_be_replaced(scene: Scene) -> None:
    scene.ready()
    scene.create()
    scene.faults.add("set", "claim", value={"operation_key": 1})
    assert [lease["operation_key"] for lease in scene.claim().json] == [1]


def test_what_nobody_can_read_any_more_is_spoiled_last(scene: Scene) -> None:
    scene.ready()
    scene.create()
    scene.faults.add("garbage", "claim")
    scene.faults.add("set", "claim", value={"operation_key": 1})
    reply = scene.claim()
    assert reply.status == 200
    with pytest.raises(ValueError, match="line 1"):
        json.loads(reply.body)


def test_a_refusal_is_not_spoiled(scene: Scene) -> None:
    scene.faults.add("garbage", "*", times=None)
    assert is_problem(scene.post("/tasks/claim", {}), 422, "WV-VALIDATION")
    reply = scene.client.send("POST", "/oauth/token", b"grant_type=client_credentials")
    assert (reply.status, reply.json) == (401, {"error": "invalid_client"})


@pytest.mark.parametrize("kind", ["hold", "delay"])
def test_an_answer_can_come_after_its_lease_is_over(scene: Scene, kind: str) -> None:
    lease = scene.ready().lease()
    scene.faults.add(kind, "complete", value=60_000)
    scene.weave.pause = scene.weave.advance  # type: ignore[method-assign]
    reply = scene.complete(lease, 1, ONE)
    if kind == "hold":
        assert is_problem(reply, 409, "WV-LEASE")
    else:
        assert reply.json["status"] == "completed"
    assert is_problem(scene.heartbeat(lease), 409, "WV-LEASE")


def test_a_stop_ends_a_pause(scene: Scene) -> None:
    scene.ready()
    scene.faults.add("delay", "claim", value=60_000)
    claim = Background(scene.claim)
    scene.weave.recorder.wait(lambda seen: [one for one in seen if one.call == "claim"])
    scene.weave.stop()
    claim.join()
    scene.weave.start()


def test_the_clock_can_jump_before_a_call_and_tokens_can_end(scene: Scene) -> None:
    lease = scene.ready().lease()
    scene.faults.add("advance", "heartbeat")
    assert is_problem(scene.heartbeat(lease), 409, "WV-LEASE")
    scene.faults.add("expire", "claim")
    assert is_problem(scene.claim(), 401, "WV-UNAUTHENTICATED")


def test_faults_meet_their_call_after_others_and_can_be_lifted(scene: Scene) -> None:
    scene.ready()
    scene.faults.add("status", "claim", skip=1, times=1)
    fault = scene.faults.add("status", "claim", skip=2, times=None)
    assert [scene.claim().status for _ in range(4)] == [200, 503, 200, 503]
    fault.times = 0
    assert scene.claim().status == 200
    scene.faults.add("status", "claim", times=None)
    scene.faults.clear()
    assert scene.claim().status == 200


def test_faults_on_the_command_line() -> None:
    assert parse_fault("capacity:complete:WV-REQUEST-CAPACITYx3") == Fault(
        "capacity", "complete", "WV-REQUEST-CAPACITY", 3
    )
    assert parse_fault("delay:claim:2s+1") == Fault("delay", "claim", 2_000, 1, 1)
    for text, said in (("lost:poll", "calls are"), ("wonder:claim", "kinds are"), ("delay:claim:soon", "no value")):
        with pytest.raises(ConfigurationError, match=said):
            parse_fault(text)
    assert all(name in explain() for name in KINDS)

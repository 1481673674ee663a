"""Refusals for capacity: real ones, in ordinary runs, and such as must not be taken for them."""

import threading
from collections import Counter

import pytest

from orbit_django.embedded.weave.server import FREQUENT, ORDINARY, RARE, Limits
from tests.embedded.waits import Background
from tests.embedded.weave.scene import Scene, is_problem
from tests.embedded.wire import Client, Reply


def beside(scene: Scene, limits: Limits) -> tuple[Client, threading.Event, threading.Event]:
    """Let the server's clock tell when a transaction begins, and hold it there."""
    scene.weave.limits = limits
    began, go_on = threading.Event(), threading.Event()

    def hold(seconds: float) -> None:
        began.set()
        assert go_on.wait(10)

    scene.weave.pause = hold  # type: ignore[method-assign]
    return Client(scene.weave.url), began, go_on


def claimed_beside_another(scene: Scene, limits: Limits) -> Reply:
    """Return what a claim is told while another one is held in the middle, which then succeeds."""
    scene.ready()
    other, began, go_on = beside(scene, limits)
    body = {"worker_id": scene.worker_id, "limit": 1}
    first = Background(scene.post, "/tasks/claim", body, "worker", other)
    assert began.wait(10)
    reply = scene.claim()
    go_on.set()

    assert first.join().status == 200
    other.close()
    return reply


def test_no_more_than_two_requests_execute_at_once(scene: Scene) -> None:
    reply = claimed_beside_another(scene, Limits(executing=1))

    assert is_problem(reply, 429, "WV-OPERATION-CAPACITY")
    assert reply.headers["retry-after"] == "1"
    assert (ORDINARY.executing, ORDINARY.bodies, ORDINARY.lock_seconds) == (2, 12, 0.25)


def test_the_lock_of_a_project_is_waited_for_only_briefly(scene: Scene) -> None:
    reply = claimed_beside_another(scene, Limits(lock_seconds=0.01))

    assert is_problem(reply, 429, "WV-OPERATION-CAPACITY")
    assert "retry-after" not in reply.headers


def test_no_more_than_twelve_bodies_are_held(scene: Scene) -> None:
    reply = claimed_beside_another(scene, Limits(bodies=1))

    assert is_problem(reply, 429, "WV-REQUEST-CAPACITY")
    assert reply.headers["retry-after"] == "1"


def test_reads_are_not_counted(scene: Scene) -> None:
    scene.ready()
    scene.weave.limits = Limits(executing=0, bodies=0)
    assert scene.raw(f"/workers/{scene.worker_id}", b"", who="deployer", method="GET").status == 200
    assert scene.claim().status == 429


def test_a_lock_held_elsewhere_is_met_by_an_ordinary_request(scene: Scene) -> None:
    lease = scene.ready().lease()
    scene.faults.add("lock", "complete", value=5_000)
    assert is_problem(scene.complete(lease), 429, "WV-OPERATION-CAPACITY")
    assert scene.task(lease)["receipts"] == []


@pytest.mark.parametrize("code", ["WV-REQUEST-CAPACITY", "WV-OPERATION-CAPACITY"])
def test_refusals_come_as_often_as_asked_for_and_change_nothing(scene: Scene, code: str) -> None:
    lease = scene.ready().lease()
    scene.faults.add("capacity", "complete", value=code, times=3)
    completion_id = "00000000-0000-4000-8000-000000000009"
    for _ in range(3):
        assert is_problem(scene.complete(lease, None, completion_id), 429, code)
    assert scene.complete(lease, None, completion_id).status == 200
    first, *others = scene.weave.recorder.of("complete")
    assert {exchange.body for exchange in others} == {first.body}


def refused(scene: Scene, limits: Limits) -> Counter[str]:
    """Count the codes that four busy clients see."""
    scene.weave.limits = limits
    clients = [Client(scene.weave.url) for _ in range(4)]
    body = {"worker_id": scene.worker_id, "limit": 1}

    def work(client: Client) -> list[str]:
        replies = [scene.post("/tasks/claim", body, "worker", client) for _ in range(15)]
        client.close()
        return [reply.json["code"] if reply.status == 429 else "fine" for reply in replies]

    running = [Background(work, client) for client in clients]
    return Counter(code for one in running for code in one.join())


def test_frequent_refusals_are_frequent_and_rare_ones_rare(scene: Scene) -> None:
    scene.ready()
    frequent, rare = refused(scene, FREQUENT), refused(scene, Limits(executing=100, work_seconds=RARE.work_seconds))
    assert frequent["WV-OPERATION-CAPACITY"] > 10
    assert rare == {"fine": 60}


def test_a_refusal_arrives_though_the_body_is_large(scene: Scene) -> None:
    lease = scene.ready().lease()
    scene.weave.limits = Limits(bodies=0)
    for _ in range(3):
        assert is_problem(scene.complete(lease, "x" * 1_000_000), 429, "WV-REQUEST-CAPACITY")
    scene.weave.limits = RARE
    assert scene.complete(lease, "x" * 1_000_000).status == 200

"""How leases are claimed: for the threads that are free, at a bounded pace, in the words of the worker."""

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from itertools import pairwise
from typing import Any

import pytest

from orbit_django.exceptions import ConfigurationError, NoAnswerError, RefusedError, UnknownSessionError
from orbit_django.protocol import Assignment, Contract, Registration
from tests.transports.weave.scene import MAIL, WAIT_MS, Scene


def limits(scene: Scene) -> list[int]:
    return [json.loads(body)["limit"] for body in scene.bodies("claim")]


def poll_all(scene: Scene, count: int, wait_ms: int = WAIT_MS) -> list[Assignment | None]:
    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(lambda _: scene.transport.poll(scene.worker_id, wait_ms), range(count)))


@pytest.mark.clause("V10", "V12", "V30")
def test_an_instance_says_release_exact_types_and_capacity(scene: Scene) -> None:
    session = scene.transport.register(scene.registration())
    assert json.loads(scene.bodies("register")[0]) == {
        "release_id": scene.release_id,
        "task_types": [MAIL],
        "capacity": 10,
    }
    assert [one["id"] for one in scene.call("instances")] == [session.session_id]


@pytest.mark.clause("V30")
def test_a_release_that_is_not_known_is_a_refusal_and_one_that_is_not_set_a_mistake(scene: Scene) -> None:
    lost = scene.made(release_id="99999999-9999-4999-8999-999999999999")
    with pytest.raises(RefusedError, match="WV-LEASE") as caught:
        lost.register(scene.registration())
    assert "the release 99999999-9999-4999-8999-999999999999 of WEAVE['RELEASE_ID'] is unknown" in str(caught.value)
    assert "admit one with manage.py orbit_weave admit, and set RELEASE_ID" in str(caught.value)
    with pytest.raises(ConfigurationError, match="RELEASE_ID is missing"):
        scene.made(release_id=None).register(scene.registration())
    with pytest.raises(RefusedError, match="WV-FORBIDDEN") as caught:
        scene.transport.register(Registration("w", "python", (Contract("other", "1.0.0"),), "sdk"))
    assert f"{scene.release_id} of WEAVE['RELEASE_ID'] does not offer other@1.0.0, or the token" in str(caught.value)
    assert "another image digest and manage.py orbit_weave admit, and set RELEASE_ID" in str(caught.value)
    many = tuple(Contract(f"t{number}", "1.0.0") for number in range(7))
    with pytest.raises(RefusedError, match=r"not offer all of t0@1.0.0, .*, t4@1.0.0 and 2 more, or"):
        scene.transport.register(Registration("w", "python", many, "sdk"))
    with pytest.raises(ConfigurationError, match="1 to 100 tasks"):
        scene.transport.register(Registration("w", "python", (), "sdk"))


@pytest.mark.clause("V40", "V41", "V42")
def test_a_lease_is_an_assignment_in_our_words(scene: Scene) -> None:
    given = scene.poll(input={"to": "x", "n": 1.5})
    task = scene.task(given)
    assert (given.task_name, given.contract_version, given.input) == ("mail.send", "1.0.0", {"to": "x", "n": 1.5})
    assert given.idempotency_key == task["operation_key"]
    assert (given.execution_id, given.step_id) == (task["run_id"], task["step"])
    assert (given.attempt, given.redelivery, given.workflow, given.is_leased) == (1, False, "", True)
    assert given.deadline_ms == pytest.approx(task["deadline"] * 1000, abs=2)
    assert 590_000 < (given.timeout_ms or 0) <= 600_000


@pytest.mark.clause("V31")
def test_one_claim_brings_work_for_every_free_thread(scene: Scene) -> None:
    scene.register()
    for _ in range(3):
        scene.create()
    found = poll_all(scene, 5, 1_000)
    assert len([one for one in found if one]) == 3
    assert len({one.token for one in found if one}) == 3
    assert max(limits(scene)) >= 2
    assert all(1 <= limit <= 5 for limit in limits(scene))


@pytest.mark.clause("V31")
def test_more_than_a_hundred_threads_claim_a_hundred_at_once() -> None:
    scene = Scene()
    scene.transport = scene.made(capacity=100)
    try:
        scene.register()
        poll_all(scene, 120, 700)
        assert max(limits(scene)) == 100
    finally:
        scene.close()


def test_idle_threads_ask_together_about_once_a_second_and_never_in_step(scene: Scene) -> None:
    scene.register()
    poll_all(scene, 8, 4_000)
    at = [one.at for one in scene.sent("claim")]
    gaps = [later - earlier for earlier, later in pairwise(at)]
    assert 3 <= len(at) <= 12
    assert max(gaps) < 3
    assert len({round(gap, 3) for gap in gaps[-3:]}) > 1, "by chance a little more or less"


def test_an_empty_poll_has_asked(scene: Scene) -> None:
    scene.register()
    assert scene.transport.poll(scene.worker_id, 300) is None
    assert len(scene.sent("claim")) >= 1


@pytest.mark.clause("V21")
def test_at_capacity_a_claim_brings_nothing_and_another_one_follows(scene: Scene) -> None:
    scene.register()
    scene.create()
    scene.faults.add("capacity", "claim", times=3)
    assert scene.transport.poll(scene.worker_id, WAIT_MS) is not None
    assert len(set(scene.bodies("claim"))) == 1


@pytest.mark.clause("V14", "V15")
@pytest.mark.parametrize(
    ("fault", "value", "error"),
    [
        ("drop", None, NoAnswerError),
        ("lost", None, NoAnswerError),
        ("garbage", None, NoAnswerError),
        ("status", 503, NoAnswerError),
        ("status", (403, "WV-FORBIDDEN"), RefusedError),
        ("status", (409, "WV-LEASE"), UnknownSessionError),
        ("html", 403, NoAnswerError),
        ("answer", {"no": "list"}, NoAnswerError),
    ],
)
def test_a_claim_that_fails_is_told_to_one_thread(scene: Scene, fault: str, value: Any, error: type) -> None:
    scene.register()
    scene.faults.add(fault, "claim", **({} if value is None else {"value": value}))
    with pytest.raises(error) as caught:
        scene.transport.poll(scene.worker_id, WAIT_MS)
    assert not getattr(caught.value, "is_maybe_processed", False), "what is lost comes again by itself"
    scene.create()
    assert scene.transport.poll(scene.worker_id, WAIT_MS) is not None


@pytest.mark.clause("V31")
def test_every_waiting_thread_learns_of_a_revoked_instance(scene: Scene) -> None:
    scene.register()
    seen: list[type] = []

    def poll() -> None:
        try:
            scene.transport.poll(scene.worker_id, 10_000)
        except UnknownSessionError as error:
            seen.append(type(error))

    threads = [threading.Thread(target=poll) for _ in range(3)]
    for thread in threads:
        thread.start()
    scene.call("revoke_instance", worker_id=scene.worker_id)
    for thread in threads:
        thread.join(10)
    assert seen == [UnknownSessionError] * 3
    scene.create()
    assert scene.transport.poll(scene.register(), WAIT_MS) is not None


@pytest.mark.clause("V40")
def test_a_lease_that_cannot_be_read_hurts_no_other(scene: Scene) -> None:
    scene.register()
    for _ in range(2):
        scene.create()
    scene.faults.add("set", "claim", value={"capability": None})
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda _: scene.transport.poll(scene.worker_id, 500), range(2)))
    scene.create()
    assert scene.transport.poll(scene.worker_id, WAIT_MS) is not None


def test_stopping_ends_idle_polls_at_once_and_keeps_what_is_on_its_way(scene: Scene) -> None:
    scene.register()
    deliveries = scene.transport.deliveries
    with ThreadPoolExecutor(2) as pool:
        idle = pool.submit(scene.transport.poll, scene.worker_id, 60_000)
        scene.faults.add("hold", "claim", value=500)
        claims = len(scene.sent("claim"))
        scene.create()
        while len(scene.sent("claim")) == claims:
            time.sleep(0.01)  # noqa: TID251  (the claim is under way)
        assert not deliveries.stop_polls(0.0)
        given = idle.result(5)
        assert given is not None
        assert not deliveries.stop_polls(0.0), "it is on its way to the room that runs it"
        deliveries.take(given.token)
        assert deliveries.stop_polls(5.0)
    began = time.monotonic()
    assert scene.transport.poll(scene.worker_id, 60_000) is None
    assert time.monotonic() - began < 1


@pytest.mark.clause("V42")
def test_a_clock_that_is_off_does_not_shorten_a_lease(scene: Scene) -> None:
    scene.register()
    scene.transport._time.learn("Thu, 01 Jan 1970 00:01:00 GMT", 0.0)
    lease = datetime.fromtimestamp(75, tz=datetime.now().astimezone().tzinfo)
    scene.transport._time._clock = type("Still", (), {"wall": lambda self: 0.0})()  # type: ignore[assignment]
    assert scene.transport._time.until(lease) == pytest.approx(14.5, abs=1)


@pytest.mark.clause("V35")
def test_an_instance_is_left_to_itself(scene: Scene) -> None:
    before = len(scene.weave.recorder.exchanges)
    scene.register()
    scene.transport.unregister(scene.worker_id, timeout_seconds=1)
    assert len(scene.weave.recorder.exchanges) == before + 1
    assert not scene.call("instances")[0]["is_revoked"]

"""Renewals: one for each lease, a third of its time ahead, and what becomes of one that is refused."""

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from orbit_django.protocol import Assignment
from tests.transports.weave.scene import Scene


@pytest.fixture
def scene() -> Iterator[Scene]:
    scene = Scene(lease_seconds=1.5)
    yield scene
    scene.close()


class Keepers:
    """What the heartbeat threads of a worker do; collects what is lost."""

    def __init__(self, scene: Scene) -> None:
        self.lost: list[str] = []
        self._scene = scene
        self._end = threading.Event()
        self._threads = [threading.Thread(target=self._beat, daemon=True) for _ in range(4)]

    def __enter__(self) -> "Keepers":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._end.set()
        for thread in self._threads:
            thread.join(10)

    def _beat(self) -> None:
        while not self._end.is_set():
            self.lost += self._scene.transport.heartbeat("any", timeout_seconds=5)


def wait_for(condition: Callable[[], object], seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)  # noqa: TID251  (between two looks at other threads)


@pytest.mark.clause("V32", "V40")
def test_each_lease_is_renewed_at_a_third_of_its_time_with_its_own_proof(scene: Scene) -> None:
    given = [scene.poll() for _ in range(3)]
    with Keepers(scene) as keepers:
        wait_for(lambda: len(scene.sent("heartbeat")) >= 12)
    assert keepers.lost == []
    for one in given:
        bodies = [body for body in scene.bodies("heartbeat") if body.decode() == one.token]
        assert len(bodies) >= 3
    at = [one.at for one in scene.sent("heartbeat") if (one.body or b"").decode() == given[0].token]
    assert at[1] - at[0] >= 0.4
    assert all(scene.complete(one).accepted for one in given)


def test_what_is_settled_or_dropped_is_not_renewed(scene: Scene) -> None:
    settled, dropped = scene.poll(), scene.poll()
    scene.complete(settled)
    scene.transport.deliveries.drop(dropped.token)
    with Keepers(scene) as keepers:
        threading.Event().wait(1.0)
    assert scene.sent("heartbeat") == []
    assert keepers.lost == []


@pytest.mark.clause("V34")
def test_a_lost_renewal_is_made_again_while_the_lease_lives(scene: Scene) -> None:
    given = scene.poll()
    scene.faults.add("drop", "heartbeat", times=2)
    with Keepers(scene) as keepers:
        wait_for(lambda: len(scene.sent("heartbeat")) >= 6)
    assert keepers.lost == []
    assert scene.complete(given).accepted


@pytest.mark.clause("V21")
def test_at_capacity_renewals_wait_as_the_table_says(scene: Scene) -> None:
    given = scene.poll()
    scene.faults.add("capacity", "heartbeat", times=4)
    with Keepers(scene) as keepers:
        wait_for(lambda: len(scene.sent("heartbeat")) >= 6)
    at = [one.at for one in scene.sent("heartbeat")]
    for number, least in enumerate([0.05, 0.1, 0.1, 0.05]):  # no wait is longer than a third of what is left
        assert at[number + 1] - at[number] >= least * 0.99
    assert (keepers.lost, len(set(scene.bodies("heartbeat")))) == ([], 1)
    assert scene.complete(given).accepted


@pytest.mark.clause("V34")
def test_a_lease_that_nobody_could_renew_is_lost_at_its_end_and_no_other_with_it(scene: Scene) -> None:
    given, other = scene.poll(), scene.poll()
    scene.call("cancel", run_id=scene.task(given)["run_id"])
    with Keepers(scene) as keepers:
        wait_for(lambda: keepers.lost)
        assert keepers.lost == [given.token]
        threading.Event().wait(2.0)
    assert keepers.lost == [given.token]
    assert scene.complete(other).accepted


@pytest.mark.clause("V33")
def test_a_run_that_is_suspended_for_a_moment_costs_no_lease() -> None:
    scene = Scene(lease_seconds=6)
    try:
        given = scene.poll()
        run_id = scene.task(given)["run_id"]
        scene.call("pause", run_id=run_id)
        with Keepers(scene) as keepers:
            wait_for(lambda: len(scene.sent("heartbeat")) >= 1)
            scene.call("resume", run_id=run_id)
            wait_for(lambda: scene.sent("heartbeat")[-1].status == 200)
        assert keepers.lost == []
        assert scene.complete(given).accepted
    finally:
        scene.close()


@pytest.mark.clause("V33")
def test_three_refusals_in_a_row_are_the_end() -> None:
    scene = Scene(lease_seconds=12)
    try:
        given = scene.poll()
        scene.call("pause", run_id=scene.task(given)["run_id"])
        with Keepers(scene) as keepers:
            wait_for(lambda: keepers.lost)
        assert [one.status for one in scene.sent("heartbeat")] == [409] * 3
        assert scene.complete(given).accepted, "a completion is still taken"
    finally:
        scene.close()


@pytest.mark.clause("V33")
@pytest.mark.parametrize(("status", "code"), [(403, "WV-FORBIDDEN"), (404, "WV-NOT-FOUND")])
def test_what_can_never_be_renewed_is_lost_at_once(scene: Scene, status: int, code: str) -> None:
    given = scene.poll()
    scene.faults.add("status", "heartbeat", value=(status, code))
    with Keepers(scene) as keepers:
        wait_for(lambda: keepers.lost)
    assert (keepers.lost, len(scene.sent("heartbeat"))) == ([given.token], 1)


def test_one_slow_renewal_holds_up_no_other(scene: Scene) -> None:
    given: list[Assignment] = [scene.poll() for _ in range(3)]
    scene.faults.add("hold", "heartbeat", value=1_200)
    with Keepers(scene) as keepers:
        wait_for(lambda: len(scene.sent("heartbeat")) >= 8)
    assert len(keepers.lost) <= 1
    assert sum(scene.complete(one).accepted for one in given) >= 2

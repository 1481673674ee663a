from typing import Any

import pytest

from orbit_django.embedded.sessions import heartbeat_interval_ms
from orbit_django.exceptions import RuntimeRefusalError
from tests.embedded.world import World, registration


@pytest.mark.parametrize(("timeout_ms", "interval_ms"), [(30_000, 5_000), (6_000, 1_000), (3_000, 500), (100, 500)])
def test_the_interval_is_a_sixth_and_never_below_half_a_second(timeout_ms: int, interval_ms: int) -> None:
    assert heartbeat_interval_ms(timeout_ms) == interval_ms


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"worker_id": " \t"}, "INVALID_REQUEST"),
        ({"contracts": []}, "INVALID_REQUEST"),
        ({"contracts": [{"task_name": "orbit.http.request", "contract_version": "1"}]}, "RESERVED_TASK"),
        ({"contracts": [{"task_name": "Greet", "contract_version": "1"}]}, "RESERVED_TASK"),
    ],
)
def test_registrations_that_are_refused(world: World, change: dict[str, Any], code: str) -> None:
    with pytest.raises(RuntimeRefusalError) as caught:
        world.runtime.register(registration() | change)

    assert (caught.value.status, caught.value.code) == (400, code)
    assert list(world.runtime.sessions) == []


@pytest.mark.parametrize(
    ("contract", "warning"),
    [
        (
            ("greeting.compose", "2.0.0"),
            "`greeting.compose` is announced at version 2.0.0 but registered workflows use 1.0.0; "
            "this worker will not receive those tasks",
        ),
        (
            ("other.task", "1.0.0"),
            "`other.task` is announced at version 1.0.0 but no registered workflow uses it; "
            "this worker will not receive those tasks",
        ),
        (
            ("greeting.compsoe", "1.0.0"),
            "`greeting.compsoe` is announced at version 1.0.0 but no registered workflow uses it; "
            "this worker will not receive those tasks; did you mean `greeting.compose`?",
        ),
    ],
)
def test_a_version_that_no_workflow_uses_is_a_warning(world: World, contract: tuple[str, str], warning: str) -> None:
    answer = world.runtime.register(registration("w", "ruby", contract, ("greeting.compose", "1.0.0")))

    assert answer["warnings"] == [warning]


@pytest.mark.parametrize("contact", ["poll", "heartbeat"])
def test_polls_and_heartbeats_keep_a_session(world: World, contact: str) -> None:
    session = world.session()
    for _ in range(3):
        world.passes(5)
        getattr(world.runtime, contact)(session)
    assert world.runtime.sessions.find(session)

    world.passes(6)
    assert world.runtime.sessions.find(session) is None


def test_results_keep_a_session(world: World) -> None:
    session, task = world.held()
    world.passes(5)
    world.fail(task["token"])
    world.passes(5)

    assert world.runtime.sessions.find(session)


def test_a_poll_that_only_waits_is_no_contact(world: World) -> None:
    session = world.session()
    world.passes(5)
    world.runtime.poll(session, is_contact=False)
    world.passes(1)

    assert world.runtime.sessions.find(session) is None

"""Sessions and their tasks, by the same cases over every binding that knows sessions."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from orbit_django.exceptions import RefusedError, UnknownSessionError
from orbit_django.protocol import Registration
from tests.processes import wait_for
from tests.transports.contract.side import CALLS, CONTRACTS, OF_SESSIONS, Side


def test_what_a_binding_is_known_by(side: Side) -> None:
    assert (side.transport.name, side.transport.server) == (side.name, side.runtime.url)


def test_a_registration_opens_a_session(side: Side) -> None:
    opened = side.transport.register(Registration("w-1", "ruby", CONTRACTS, "t/1"))

    assert opened.session_id
    assert (opened.heartbeat_interval_ms, opened.session_timeout_ms) == (5_000, 30_000)
    assert side.session() != opened.session_id


def test_a_registration_that_the_runtime_does_not_take(side: Side) -> None:
    with pytest.raises(RefusedError, match=r"^400 INVALID_REQUEST: a worker must announce") as caught:
        side.transport.register(Registration("w-1", "ruby", (), "t/1"))
    assert caught.value.is_from_runtime


def test_a_poll_brings_a_task_with_all_that_belongs_to_it(side: Side) -> None:
    found = side.task()

    assert (found.execution_id, found.workflow, found.workflow_version) == ("e-1", "Greet", "1.0.0")
    assert (found.step_id, found.contract, found.input) == ("compose", CONTRACTS[0], {"name": "Zoë"})
    assert (found.attempt, found.redelivery, found.idempotency_key) == (1, False, "e-1/compose")
    assert found.timeout_ms == 30_000
    assert found.deadline_ms is not None
    assert 0 < found.deadline_ms / 1000 - time.time() < 31
    assert found.token
    assert found.token not in repr(found)


def test_a_task_that_comes_again_is_a_redelivery(side: Side) -> None:
    session = side.session()
    first = side.task(session)
    side.faults.add("expire", "heartbeat")
    with pytest.raises(UnknownSessionError):
        side.transport.heartbeat(session, timeout_seconds=3)
    second = side.transport.poll(side.session(), 1_000)

    assert second is not None
    assert (second.redelivery, second.attempt, second.idempotency_key) == (True, 1, first.idempotency_key)
    assert second.token != first.token


def test_a_poll_without_a_task_ends_after_its_time(side: Side) -> None:
    session, began = side.session(), time.monotonic()

    assert side.transport.poll(session, 300) is None
    assert 0.3 <= time.monotonic() - began < 3


def test_a_poll_that_waits_is_handed_the_task_at_once(side: Side) -> None:
    session = side.session()
    with ThreadPoolExecutor() as threads:
        poll = threads.submit(side.transport.poll, session, 30_000)
        wait_for(lambda: side.faults.times("poll"))
        side.start()
        found = poll.result(5)
    assert found is not None
    assert found.execution_id == "e-1"


@pytest.mark.promise("W3")
@pytest.mark.parametrize("call", OF_SESSIONS)
def test_a_session_that_the_runtime_does_not_know(side: Side, call: str) -> None:
    with pytest.raises(UnknownSessionError):
        CALLS[call](side.transport)


@pytest.mark.promise("W4")
def test_a_heartbeat_tells_what_is_to_be_stopped(side: Side) -> None:
    session = side.session()
    task = side.task(session)
    assert side.transport.heartbeat(session, timeout_seconds=3) == ()
    with side.runtime.changing() as runtime:
        runtime.cancel("e-1")

    assert side.transport.heartbeat(session, timeout_seconds=3) == (task.token,)


@pytest.mark.promise("W2")
def test_an_unregistered_session_is_over_and_gives_back_what_it_held(side: Side) -> None:
    session = side.session()
    first = side.task(session)
    side.transport.unregister(session, timeout_seconds=3)

    with pytest.raises(UnknownSessionError):
        side.transport.heartbeat(session, timeout_seconds=3)
    again = side.transport.poll(side.session(), 1_000)
    assert again is not None
    assert (again.redelivery, again.idempotency_key) == (True, first.idempotency_key)

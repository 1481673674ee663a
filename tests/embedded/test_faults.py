import json
import time

import pytest

from orbit_django.contracts import read
from orbit_django.embedded.faults import Fault, Faults, parse_fault
from orbit_django.embedded.server import EmbeddedRuntime
from orbit_django.exceptions import ConfigurationError
from tests.contracts.texts import GREET
from tests.embedded.wire import Client


@pytest.fixture
def faults() -> Faults:
    return Faults()


@pytest.fixture
def client(faults: Faults):
    with EmbeddedRuntime(read(GREET), faults=faults) as runtime:
        client = Client(runtime.url)
        yield client
        client.close()


def test_a_lost_answer_was_processed(faults: Faults, client: Client) -> None:
    session = client.register()
    client.start()
    token = client.poll(session).json["token"]
    faults.add("lost", "complete")
    with pytest.raises(OSError, match="closed connection without response"):
        client.complete(token)

    assert client.complete(token).json["accepted"] is False
    assert client.get("/v1/executions/e-1").json["status"] == "COMPLETED"


def test_a_status_was_not_processed(faults: Faults, client: Client) -> None:
    session = client.register()
    client.start()
    token = client.poll(session).json["token"]
    faults.add("status", "complete", value=502, times=2)

    assert [client.complete(token).status for _ in range(3)] == [502, 502, 200]


def test_a_delay_holds_the_answer(faults: Faults, client: Client) -> None:
    session = client.register()
    faults.add("delay", "heartbeat", value=60)
    began = time.monotonic()
    client.post("/v1/workers/heartbeat", {"worker_session_id": session})

    assert time.monotonic() - began >= 0.06


def test_a_duplicate_is_handed_out_while_the_first_runs(faults: Faults, client: Client) -> None:
    session = client.register()
    client.start()
    faults.add("duplicate", "poll")
    first, second = (client.poll(session).json for _ in range(2))

    assert (second["redelivery"], second["attempt"], second["idempotency_key"]) == (True, 1, first["idempotency_key"])
    assert client.complete(first["token"]).json == {"accepted": True}


def test_an_expired_session_gives_its_attempts_back(faults: Faults, client: Client) -> None:
    session = client.register()
    client.start()
    client.poll(session)
    faults.add("expire", "heartbeat")

    assert client.post("/v1/workers/heartbeat", {"worker_session_id": session}).status == 404
    assert client.poll(client.register()).json["redelivery"] is True


def test_garbage_is_a_200_that_nobody_can_read(faults: Faults, client: Client) -> None:
    faults.add("garbage", "other")
    reply = client.start()

    assert reply.status == 200
    with pytest.raises(json.JSONDecodeError):
        reply.json  # noqa: B018 (reading it is what fails)
    assert client.start().json["created"] is False


def test_a_fault_can_wait_and_can_be_lifted(faults: Faults, client: Client) -> None:
    session = client.register()
    fault = faults.add("status", "poll", value=503, times=None, skip=2)
    seen = [client.poll(session).status for _ in range(4)]
    fault.times = 0

    assert [*seen, client.poll(session).status] == [204, 204, 503, 503, 204]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("lost:complete", Fault("lost", "complete")),
        ("lost:*x*", Fault("lost", "*", times=None)),
        ("status:poll", Fault("status", "poll", 503)),
        ("status:poll:500x3", Fault("status", "poll", 500, 3)),
        ("delay:fail:2s", Fault("delay", "fail", 2_000)),
        ("delay:fail:150msx2", Fault("delay", "fail", 150, 2)),
        ("expire:heartbeat", Fault("expire", "heartbeat")),
        ("garbage:other", Fault("garbage", "other")),
        ("duplicate:poll", Fault("duplicate", "poll")),
    ],
)
def test_faults_on_the_command_line(text: str, fault: Fault) -> None:
    assert parse_fault(text) == fault


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("lost", "expected KIND:CALL"),
        ("explode:poll", "kinds are lost, status, delay, duplicate, expire, garbage"),
        ("lost:polls", "calls are register, poll,"),
        ("lost:poll:5", "`5` is no value for lost"),
        ("status:poll:9", "`9` is no value for status"),
        ("delay:poll:5", "`5` is no value for delay"),
    ],
)
def test_faults_that_make_no_sense(text: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        parse_fault(text)

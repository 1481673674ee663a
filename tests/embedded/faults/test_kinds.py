import http.client
import json
import time

import pytest

from orbit_django.embedded.answers import Answer
from orbit_django.embedded.faults import KINDS, Faults
from orbit_django.embedded.faults.calls import CALLS
from orbit_django.embedded.server import EmbeddedRuntime
from tests.embedded.waits import Background, waiting
from tests.embedded.wire import Client

WORKER_CALLS = ("register", "poll", "heartbeat", "unregister", "complete", "fail")


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


@pytest.mark.parametrize("spoiling", ["garbage", "empty"])
@pytest.mark.parametrize("is_first", [True, False])
def test_a_duplicate_is_handed_out_although_the_first_answer_is_spoilt(
    faults: Faults, client: Client, spoiling: str, is_first: bool
) -> None:
    session = client.register()
    client.start()
    for kind in (spoiling, "duplicate") if is_first else ("duplicate", spoiling):
        faults.add(kind, "poll")
    first, second = (client.poll(session) for _ in range(2))

    assert (first.status, second.status) == (200, 200)
    assert b"token" not in first.body or not first.body.endswith(b"}")
    assert second.json["redelivery"] is True


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


@pytest.mark.parametrize("call", [*WORKER_CALLS, "other"])
def test_the_answer_of_every_call_can_be_lost(
    runtime: EmbeddedRuntime, faults: Faults, client: Client, call: str
) -> None:
    faults.add("lost", call)
    with pytest.raises(OSError, match="closed connection without response"):
        client.call(call)
    (exchange,) = runtime.recorder.of(call)

    assert exchange.status is None
    assert client.call(call).status in {200, 404, 422}


def test_a_dropped_request_was_not_processed(faults: Faults, client: Client) -> None:
    faults.add("drop", "other")
    with pytest.raises(OSError, match="closed connection without response"):
        client.start()

    assert client.start().json["created"] is True


def test_a_refusing_port_keeps_the_sessions(runtime: EmbeddedRuntime, faults: Faults, client: Client) -> None:
    session = client.register()
    other = Client(runtime.url)
    poll = Background(other.poll, session, 20_000)
    waiting(runtime)
    faults.add("refuse", "heartbeat", value=300)
    began = time.monotonic()
    with pytest.raises(OSError, match=r"closed connection|reset"):
        client.beat(session)
    assert isinstance(poll.join(), OSError), "open connections are cut"
    with pytest.raises(ConnectionRefusedError):
        client.beat(session)
    while True:
        try:
            reply = client.beat(session)
            break
        except ConnectionRefusedError:
            assert time.monotonic() - began < 10

    assert time.monotonic() - began >= 0.3
    assert reply.status == 200
    other.close()


def test_a_restart_in_the_middle_of_a_call(runtime: EmbeddedRuntime, faults: Faults, client: Client) -> None:
    session = client.register()
    client.start()
    token = client.poll(session).json["token"]
    other = Client(runtime.url)
    poll = Background(other.poll, session, 20_000)
    waiting(runtime)
    faults.add("restart", "complete", value=20)
    with pytest.raises(OSError, match=r"closed connection|reset"):
        client.complete(token)
    assert isinstance(poll.join(), OSError), "an open poll is cut"
    again = client.until_answered(token)

    assert again.json == {"accepted": True}
    assert client.beat(session).json["error"]["code"] == "UNKNOWN_SESSION"
    other.close()


@pytest.mark.parametrize(
    ("value", "code", "version"),
    [
        (400, "INVALID_REQUEST", "orbit-api/1"),
        (401, "UNAUTHENTICATED", None),
        (403, "FORBIDDEN", None),
        (500, "INTERNAL_SERVER_ERROR", "orbit-api/1"),
        ((404, "UNKNOWN_SESSION"), "UNKNOWN_SESSION", "orbit-api/1"),
        ((400, "RESERVED_TASK"), "RESERVED_TASK", "orbit-api/1"),
    ],
)
def test_a_status_has_the_code_that_belongs_to_it(
    faults: Faults, client: Client, value: object, code: str, version: str | None
) -> None:
    faults.add("status", "register", value=value)
    reply = client.call("register")

    assert (reply.json["error"]["code"], reply.headers["x-orbit-api-version"]) == (code, version)


def test_answers_that_are_not_the_runtimes(faults: Faults, client: Client) -> None:
    faults.add("html", "poll", value=504)
    faults.add("text", "poll", value=422)
    faults.add("leader", "poll", value="http://10.0.0.2:7233")
    faults.add("redirect", "poll", value="http://10.0.0.3/")
    faults.add("answer", "poll", value={"token": "t"})
    faults.add("answer", "poll", value=Answer(418, b"tea", "text/x-tea", None, (("retry-after", "3"),)))
    html, text, leader, redirect, answer, tea = (client.call("poll") for _ in range(6))

    assert (html.status, html.headers["content-type"]) == (504, "text/html; charset=utf-8")
    assert html.headers["x-orbit-api-version"] is None
    assert (text.status, text.headers["content-type"]) == (422, "text/plain; charset=utf-8")
    assert text.headers["x-orbit-api-version"] == "orbit-api/1"
    assert (leader.status, leader.json["error"]["code"]) == (503, "NOT_LEADER")
    assert leader.json["error"]["leader"] == "http://10.0.0.2:7233"
    assert (redirect.status, redirect.headers["location"]) == (307, "http://10.0.0.3/v1/workers/poll")
    assert (answer.status, answer.json) == (200, {"token": "t"})
    assert (tea.status, tea.headers["retry-after"], tea.body) == (418, "3", b"tea")


def test_a_held_call_is_processed_after_its_time(faults: Faults, client: Client) -> None:
    faults.add("hold", "heartbeat", value=60)
    faults.add("status", "heartbeat", value=503)
    began = time.monotonic()

    assert client.beat("x").status == 503
    assert time.monotonic() - began >= 0.06


def test_a_poll_can_be_held_past_its_time(faults: Faults, client: Client) -> None:
    session = client.register()
    faults.add("delay", "poll", value=60)
    began = time.monotonic()

    assert client.poll(session, 50).status == 204
    assert time.monotonic() - began >= 0.11


def test_the_next_sessions_have_another_timeout(faults: Faults, client: Client) -> None:
    before = client.post("/v1/workers/register", client.registration()).json
    faults.add("timeout", "register", value=3_000)
    after = client.post("/v1/workers/register", client.registration()).json

    assert [(a["heartbeat_interval_ms"], a["session_timeout_ms"]) for a in (before, after)] == [
        (5_000, 30_000),
        (500, 3_000),
    ]


def test_half_an_answer(faults: Faults, client: Client) -> None:
    faults.add("cut", "register")
    with pytest.raises(http.client.IncompleteRead):
        client.call("register")

    assert client.call("register").status == 200


def test_an_empty_object(faults: Faults, client: Client) -> None:
    faults.add("empty", "register")

    assert client.call("register").json == {}


def test_members_of_an_answer_are_replaced(faults: Faults, client: Client) -> None:
    session = client.register()
    client.start()
    faults.add("set", "assignment", value={"input": [1], "deadline_ms": 5})
    faults.add("set", "complete", value={"accepted": False, "reason": "because"})
    task = client.poll(session).json

    assert (task["input"], task["deadline_ms"], task["attempt"]) == ([1], 5, 1)
    assert client.complete(task["token"]).json == {"accepted": False, "reason": "because"}


def test_milliseconds_as_texts(faults: Faults, client: Client) -> None:
    session = client.register()
    client.start()
    faults.add("texts", "*", times=None)
    task = client.poll(session).json
    answer = client.post("/v1/workers/register", client.registration()).json

    assert task["timeout_ms"] == "30000"
    assert task["deadline_ms"].isdecimal()
    assert task["attempt"] == 1
    assert answer["heartbeat_interval_ms"] == "5000"


def test_a_task_that_nobody_announced(faults: Faults, client: Client) -> None:
    session = client.register()
    client.start()
    faults.add("stray", "assignment")
    task = client.poll(session).json
    failed = client.post("/v1/tasks/fail", {"token": task["token"], "error_code": "UNKNOWN_TASK"})

    assert (task["task_name"], task["contract_version"]) == ("never.announced", "0.0.0")
    assert failed.json == {"accepted": True}


def test_unknown_members_in_every_answer(faults: Faults, client: Client) -> None:
    faults.add("extra", times=None)
    session = client.register()
    client.start()
    task = client.poll(session).json
    answers = [task, client.beat(session).json, client.complete(task["token"]).json, client.call("other").json]

    assert all("x_unknown" in answer for answer in answers)


@pytest.mark.parametrize(("value", "said"), [(None, "orbit-api/2"), ("none", None), ("orbit-api/9", "orbit-api/9")])
def test_another_version_or_none(faults: Faults, client: Client, value: str | None, said: str | None) -> None:
    faults.add("version", "heartbeat", value=value)

    assert client.beat("x").headers["x-orbit-api-version"] == said


def test_every_kind_is_explained_and_does_something() -> None:
    for name, kind in KINDS.items():
        assert len(kind.about) > 10, name
        assert (kind.before is None) != (kind.after is None), name
    assert set(WORKER_CALLS) < set(CALLS)

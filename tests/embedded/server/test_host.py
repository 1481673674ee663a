import json
import time
from pathlib import Path

import pytest

from orbit_django.contracts import read
from orbit_django.embedded.callers import Identity
from orbit_django.embedded.server import EmbeddedRuntime
from orbit_django.exceptions import ConfigurationError, ContractSyntaxError
from tests.contracts.texts import GREET
from tests.embedded.waits import Background, waiting
from tests.embedded.wire import JSON, Client


@pytest.fixture
def runtime():
    with EmbeddedRuntime(read(GREET), session_timeout_ms=6_000, max_body=2_000) as runtime:
        yield runtime


@pytest.fixture
def client(runtime: EmbeddedRuntime):
    client = Client(runtime.url)
    yield client
    client.close()


def test_a_waiting_poll_is_answered_at_once_when_a_step_is_there(runtime: EmbeddedRuntime, client: Client) -> None:
    session = client.register()
    other = Client(runtime.url)
    poll = Background(other.poll, session, 20_000)
    waiting(runtime)
    began = time.monotonic()
    client.start()
    reply = poll.join()

    assert (reply.status, reply.json["execution_id"]) == (200, "e-1")
    assert time.monotonic() - began < 5
    other.close()


def test_polls_are_served_in_the_order_in_which_they_came(runtime: EmbeddedRuntime, client: Client) -> None:
    session = client.register()
    clients = [Client(runtime.url) for _ in range(3)]
    polls = []
    for number, other in enumerate(clients, 1):
        polls.append(Background(other.poll, session, 20_000))
        waiting(runtime, number)
    for name in ("a", "b", "c"):
        client.start(name)

    assert [poll.join().json["execution_id"] for poll in polls] == ["a", "b", "c"]
    for other in clients:
        other.close()


def test_an_empty_poll_ends_after_its_time(client: Client) -> None:
    session = client.register()
    began = time.monotonic()
    reply = client.poll(session, 50)

    assert (reply.status, reply.body, reply.headers["x-orbit-api-version"]) == (204, b"", "orbit-api/1")
    assert 0.05 <= time.monotonic() - began < 5


def test_a_poll_whose_client_hung_up_gets_no_task(runtime: EmbeddedRuntime, client: Client) -> None:
    session = client.register()
    dead = Client(runtime.url)
    body = json.dumps({"worker_session_id": session, "wait_ms": 20_000})
    dead.connection.request("POST", "/v1/workers/poll", body, JSON)
    waiting(runtime)
    dead.close()
    client.start()

    assert client.poll(session).json["redelivery"] is False


def test_a_poll_ends_when_its_session_is_closed(runtime: EmbeddedRuntime, client: Client) -> None:
    session = client.register()
    other = Client(runtime.url)
    poll = Background(other.poll, session, 20_000)
    waiting(runtime)
    client.post("/v1/workers/unregister", {"worker_session_id": session})

    assert poll.join().json["error"]["code"] == "UNKNOWN_SESSION"
    other.close()


def test_a_wait_for_an_execution_ends_with_it(runtime: EmbeddedRuntime, client: Client) -> None:
    session = client.register()
    client.start()
    token = client.poll(session).json["token"]
    other = Client(runtime.url)
    wait = Background(other.get, "/v1/executions/e-1/wait?timeout_ms=20000")
    waiting(runtime)
    client.complete(token)

    assert wait.join().json["status"] == "COMPLETED"
    assert client.get("/v1/executions/e-1/wait").json["output"] == {"message": "Hello, Ada"}
    other.close()


def test_a_wait_that_is_too_short_shows_what_is(client: Client) -> None:
    client.start()

    assert client.get("/v1/executions/e-1/wait?timeout_ms=1").json["status"] == "RUNNING"
    assert client.get("/v1/executions/e-1/wait?timeout_ms=x").status == 400
    assert client.get("/v1/executions/e-2/wait").status == 404


def test_the_ticker_wakes_for_retries_and_deadlines() -> None:
    text = GREET.replace("initial_delay: 1s", "initial_delay: 20ms").replace("timeout 30s", "timeout 60ms")
    with EmbeddedRuntime(read(text)) as runtime:
        client = Client(runtime.url)
        session = client.register()
        client.start()
        attempts = [client.poll(session, 10_000).json["attempt"] for _ in range(3)]
        view = client.get("/v1/executions/e-1/wait").json

        assert attempts == [1, 2, 3]
        assert (view["status"], view["error"]["code"]) == ("FAILED", "TIMEOUT")
        client.close()


def test_sessions_expire_by_themselves() -> None:
    with EmbeddedRuntime(read(GREET), session_timeout_ms=80) as runtime:
        client = Client(runtime.url)
        client.start()
        first = client.poll(client.register()).json
        second = client.poll(client.register(worker_id="w-2"), 10_000).json

        assert (second["redelivery"], second["attempt"]) == (True, 1)
        assert client.complete(first["token"]).json == {"accepted": True}
        client.close()


def test_a_restart_forgets_sessions_and_keeps_tokens(runtime: EmbeddedRuntime, client: Client) -> None:
    session = client.register()
    client.start()
    token = client.poll(session).json["token"]
    url = runtime.url
    runtime.restart()
    again = Client(url)

    assert runtime.url == url
    assert again.poll(session).json["error"]["code"] == "UNKNOWN_SESSION"
    assert again.complete(token).json == {"accepted": True}
    again.close()


def test_a_restart_cuts_open_polls(runtime: EmbeddedRuntime, client: Client) -> None:
    session = client.register()
    other = Client(runtime.url)
    poll = Background(other.poll, session, 20_000)
    waiting(runtime)
    runtime.restart()

    assert isinstance(poll.join(), OSError)
    other.close()


def test_a_file_carries_the_history_to_another_object(tmp_path: Path) -> None:
    def open_again() -> EmbeddedRuntime:
        return EmbeddedRuntime(read(GREET), db_path=tmp_path / "a.db")

    with open_again() as runtime:
        client = Client(runtime.url)
        client.start()
        client.close()
    with open_again() as runtime:
        client = Client(runtime.url)
        assert client.get("/v1/executions/e-1").json["status"] == "RUNNING"
        assert client.poll(client.register()).json["attempt"] == 1
        client.close()


def test_the_shape_of_refusals(client: Client) -> None:
    register = "/v1/workers/register"
    replies = {
        "type": client.send("POST", register, b"{}", {"content-type": "text/plain"}),
        "no type": client.send("POST", register, b"{}", {}),
        "json": client.send("POST", register, b"{"),
        "shape": client.send("POST", register, b"{}"),
        "size": client.send("POST", register, b"x" * 2_001, {}),
        "path": client.get("/v1/nowhere"),
        "method": client.get("/v1/workers/poll"),
        "options": client.send("OPTIONS", "/v1/executions", headers={}),
    }

    assert {name: reply.status for name, reply in replies.items()} == {
        "type": 415,
        "no type": 415,
        "json": 400,
        "shape": 422,
        "size": 413,
        "path": 404,
        "method": 405,
        "options": 405,
    }
    for name in ("type", "json", "shape"):
        assert replies[name].headers["content-type"] == "text/plain; charset=utf-8"
    for name in ("size", "path", "method"):
        assert replies[name].json["error"]["code"]
    assert all(reply.headers["x-orbit-api-version"] == "orbit-api/1" for reply in replies.values())


def test_a_body_of_exactly_the_limit_is_taken(client: Client) -> None:
    body = b'{"token": "' + b"x" * (2_000 - 13) + b'"}'

    assert client.send("POST", "/v1/tasks/complete", body).json["accepted"] is False
    assert client.send("POST", "/v1/tasks/complete", body + b" ").status == 413


def test_chunked_bodies_are_read(client: Client) -> None:
    chunks = iter([b'{"worker_', b'session_id": "x"}'])
    client.connection.request("POST", "/v1/workers/heartbeat", chunks, JSON, encode_chunked=True)

    assert client.connection.getresponse().status == 404


@pytest.mark.parametrize("content_type", ["application/json; charset=utf-8", "APPLICATION/JSON", "application/x+json"])
def test_content_types_that_are_json(client: Client, content_type: str) -> None:
    headers = {"content-type": content_type}

    assert client.send("POST", "/v1/workers/heartbeat", b'{"worker_session_id": "x"}', headers).status == 404


def test_missing_retryable_means_retryable(client: Client) -> None:
    session = client.register()
    client.start()
    token = client.poll(session).json["token"]
    client.post("/v1/tasks/fail", {"token": token, "error_code": "X"})

    assert client.get("/v1/executions/e-1").json["status"] == "RUNNING"


def test_the_administrators_side(client: Client) -> None:
    client.register(sdk="curl")
    assert client.start().json == {"execution_id": "e-1", "created": True}
    assert client.start().json == {"execution_id": "e-1", "created": False}

    assert [view["id"] for view in client.get("/v1/executions").json] == ["e-1"]
    assert client.get("/v1/workers").json[0]["sdk"] == "curl"
    assert [entry["event"] for entry in client.get("/v1/executions/e-1/history").json] == [
        "WorkflowStarted",
        "StepScheduled",
    ]
    assert client.post("/v1/executions/e-1/cancel", {"reason": "x"}).json["status"] == "CANCELLED"
    assert client.get("/v1/executions/e%2D1").json["status"] == "CANCELLED"
    page = client.get("/")
    assert (page.status, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert b"e-1" in page.body


def test_credentials_come_before_everything_else() -> None:
    identity = Identity("w-1", ("greeting.*",), "0" * 64)
    with EmbeddedRuntime(read(GREET), token="admin", worker_token="worker", identities=[identity]) as runtime:
        stranger, worker = Client(runtime.url), Client(runtime.url, "worker")
        refused = stranger.send("POST", "/v1/workers/register", b"{", {})
        foreign = worker.send("GET", "/v1/executions", headers={})
        page = stranger.get("/")

        assert (refused.status, refused.json["error"]["code"]) == (401, "UNAUTHENTICATED")
        assert (foreign.status, foreign.json["error"]["code"]) == (403, "FORBIDDEN")
        assert (page.status, page.headers["content-type"]) == (401, "text/html; charset=utf-8")
        for reply in (refused, foreign, page):
            assert reply.headers["x-orbit-api-version"] is None
        assert worker.register()
        stranger.close()
        worker.close()


def test_one_request_that_breaks_the_runtime_is_a_500(runtime: EmbeddedRuntime, client: Client, caplog) -> None:
    session = client.register()
    heartbeat = runtime.runtime.heartbeat
    runtime.runtime.heartbeat = lambda *_: 1 // 0
    broken = client.post("/v1/workers/heartbeat", {"worker_session_id": session})
    runtime.runtime.heartbeat = heartbeat

    assert (broken.status, broken.json["error"]["code"]) == (500, "INTERNAL")
    assert "a request of the embedded runtime failed" in caplog.text
    assert client.post("/v1/workers/heartbeat", {"worker_session_id": session}).status == 200


def test_mistakes_at_the_start(tmp_path: Path, runtime: EmbeddedRuntime) -> None:
    (tmp_path / "bad.orbit").write_text("task\n")
    with pytest.raises(ContractSyntaxError, match=r"bad\.orbit:2:1: expected the task's name in quotes"):
        EmbeddedRuntime([tmp_path / "bad.orbit"])
    port = int(runtime.url.rsplit(":", 1)[1])
    with pytest.raises(ConfigurationError, match=rf"cannot listen on 127\.0\.0\.1:{port}: Address already in use"):
        EmbeddedRuntime(port=port).start()
    with pytest.raises(ConfigurationError, match=r"cannot listen on 127\.0\.0\.1:70000"):
        EmbeddedRuntime(port=70_000).start()


def test_stopping_twice_and_never_starting_are_fine() -> None:
    runtime = EmbeddedRuntime()
    runtime.stop()
    runtime.start()
    runtime.stop()
    runtime.stop()

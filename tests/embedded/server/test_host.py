import json
import threading
import time
from pathlib import Path

import pytest

from orbit_django.contracts import read
from orbit_django.embedded.listener import ClosedError
from orbit_django.embedded.server import EmbeddedRuntime
from orbit_django.exceptions import ConfigurationError, ContractSyntaxError
from tests.contracts.texts import GREET
from tests.embedded.waits import Background, waiting
from tests.embedded.wire import JSON, Client


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
        while (reply := client.poll(client.register(worker_id="w-2"), 10_000)).status == 404:
            pass  # so slow a machine that this session expired, too
        second = reply.json

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


def test_one_request_that_breaks_the_runtime_is_a_500(runtime: EmbeddedRuntime, client: Client, caplog) -> None:
    session = client.register()
    heartbeat = runtime.runtime.heartbeat
    runtime.runtime.heartbeat = lambda *_: 1 // 0
    broken = client.post("/v1/workers/heartbeat", {"worker_session_id": session})
    runtime.runtime.heartbeat = heartbeat

    assert (broken.status, broken.json["error"]["code"]) == (500, "INTERNAL")
    assert "a request of the embedded runtime failed" in caplog.text
    assert client.post("/v1/workers/heartbeat", {"worker_session_id": session}).status == 200


def test_a_failing_tick_does_not_end_the_ticker(runtime: EmbeddedRuntime, client: Client, caplog, monkeypatch) -> None:
    monkeypatch.setattr("orbit_django.embedded.server.host._PAUSE_AFTER_FAILURE", 0.001)
    reached = threading.Event()

    def fail_first() -> None:
        raise OSError("the disk is full")

    with runtime.changing() as state:
        now = state.state.clock.monotonic()
        state.state.timers.at(now, fail_first)
        state.state.timers.at(now, reached.set)

    assert reached.wait(10)
    assert "the disk is full" in caplog.text


def test_an_address_of_version_6() -> None:
    with EmbeddedRuntime(read(GREET), host="::1") as runtime:
        client = Client(runtime.url)
        assert runtime.url.startswith("http://[::1]:")
        assert client.register()
        client.close()


def test_what_comes_too_late_never_reaches_the_history() -> None:
    runtime = EmbeddedRuntime(read(GREET)).start()
    runtime.stop()

    with pytest.raises(ClosedError), runtime.changing() as state:
        state.start("Greet", {"name": "Ada"}, "e-1")
    runtime.start()
    assert runtime.runtime.state.executions == {}
    runtime.stop()


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


def test_a_file_that_declares_nothing_is_warned_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "later.orbit"
    path.write_text("# nothing yet")
    EmbeddedRuntime([path])

    assert caplog.messages == [f"{path} declares no task and no workflow"]

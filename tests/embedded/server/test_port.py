"""The port: taken, closed for a time, opened again."""

import socket
import time
from pathlib import Path

import pytest

from orbit_django.contracts import read
from orbit_django.embedded.server import EmbeddedRuntime
from orbit_django.exceptions import ConfigurationError
from tests.contracts.texts import GREET
from tests.embedded.waits import Background, waiting
from tests.embedded.wire import Client


def test_an_absence_refuses_connections_and_keeps_sessions(runtime: EmbeddedRuntime, client: Client) -> None:
    session = client.register()
    other = Client(runtime.url)
    poll = Background(other.poll, session, 20_000)
    waiting(runtime)
    url = runtime.url
    runtime.go_away()

    assert isinstance(poll.join(), OSError)
    assert runtime.is_away
    client.close()
    for _ in range(2):
        with pytest.raises(ConnectionRefusedError):
            client.beat(session)
    runtime.come_back()
    assert not runtime.is_away
    assert runtime.url == url
    assert client.beat(session).status == 200
    other.close()


def test_nobody_else_gets_the_port_meanwhile(runtime: EmbeddedRuntime) -> None:
    port = int(runtime.url.rsplit(":", 1)[1])
    runtime.go_away()
    with pytest.raises(OSError, match="in use"), socket.socket() as stranger:
        stranger.bind(("127.0.0.1", port))


def test_an_absence_ends_by_itself(runtime: EmbeddedRuntime, client: Client) -> None:
    session = client.register()
    began = time.monotonic()
    runtime.go_away(0.1)
    runtime.go_away(60)  # it is away already
    while True:
        try:
            assert client.beat(session).status == 200
            break
        except OSError:
            assert time.monotonic() - began < 10
    assert time.monotonic() - began >= 0.1


def test_a_restart_in_an_absence_forgets_sessions_and_keeps_tokens(tmp_path: Path) -> None:
    with EmbeddedRuntime(read(GREET), db_path=tmp_path / "state.db") as runtime:
        client = Client(runtime.url)
        session = client.register()
        client.start()
        token = client.poll(session).json["token"]
        runtime.go_away(is_restart=True)
        with EmbeddedRuntime(read(GREET), db_path=tmp_path / "state.db"):
            pass  # the file is free meanwhile, as after the end of a process
        runtime.come_back()

        assert client.until_answered(token).json == {"accepted": True}
        assert client.beat(session).json["error"]["code"] == "UNKNOWN_SESSION"
        client.close()


@pytest.mark.parametrize("is_restart", [False, True])
def test_stopping_ends_an_absence(runtime: EmbeddedRuntime, is_restart: bool) -> None:
    runtime.go_away(60, is_restart=is_restart)
    runtime.stop()
    runtime.come_back()
    with pytest.raises(ConnectionRefusedError):
        Client(runtime.url).start()
    runtime.start()
    client = Client(runtime.url)
    assert client.start().status == 200
    client.close()


def test_who_is_not_there_cannot_go_away() -> None:
    runtime = EmbeddedRuntime(read(GREET))
    runtime.go_away(0)
    runtime.come_back()
    with runtime:
        client = Client(runtime.url)
        assert client.start().status == 200
        client.close()


def test_the_timeout_of_sessions_may_change_while_some_are_open(runtime: EmbeddedRuntime, client: Client) -> None:
    old = client.register()
    runtime.session_timeout_ms = 60_000
    answer = client.post("/v1/workers/register", client.registration()).json

    assert (answer["session_timeout_ms"], answer["heartbeat_interval_ms"]) == (60_000, 10_000)
    with runtime.changing() as state:
        assert [session.timeout_ms for session in state.sessions] == [6_000, 60_000]
        assert state.sessions.find(old)
    runtime.restart()
    client.close()
    assert client.post("/v1/workers/register", client.registration()).json["session_timeout_ms"] == 60_000


def test_declarations_may_come_while_the_runtime_runs(runtime: EmbeddedRuntime, client: Client) -> None:
    from tests.embedded.shop import SHOP, TASKS

    assert client.post("/v1/executions", {"workflow": "Shop", "input": {"items": []}}).status == 404
    runtime.declare(TASKS, [SHOP])

    assert client.post("/v1/executions", {"workflow": "Shop", "input": {"items": []}}).status == 200


def test_a_port_that_is_taken_leaves_nothing_open(runtime: EmbeddedRuntime, tmp_path: Path) -> None:
    port = int(runtime.url.rsplit(":", 1)[1])
    second = EmbeddedRuntime(read(GREET), port=port, db_path=tmp_path / "state.db")
    with pytest.raises(ConfigurationError, match="Address already in use"):
        second.start()

    assert not (tmp_path / "state.db").exists()

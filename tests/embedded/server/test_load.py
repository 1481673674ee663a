"""Thousands of executions and hundreds of open polls: nothing may grow with what is not asked for.

Times are bounds that a loaded machine keeps, some hundred times what was measured; what is counted is exact.
"""

import time
from collections.abc import Callable
from typing import Any

from orbit_django.contracts import read
from orbit_django.embedded.server import EmbeddedRuntime
from tests.contracts.texts import GREET
from tests.embedded.waits import Background, waiting
from tests.embedded.wire import Client

MANY = 10_000


def seconds(call: Callable[..., Any], *args: Any) -> float:
    began = time.monotonic()
    call(*args)
    return time.monotonic() - began


def test_ten_thousand_executions() -> None:
    with EmbeddedRuntime(read(GREET)) as runtime:
        client = Client(runtime.url)
        with runtime.changing() as state:
            for number in range(MANY):
                state.start("Greet", {"name": "Ada"}, f"e-{number}")
        session = client.register()

        def work() -> None:
            assert client.complete(client.poll(session).json["token"]).json == {"accepted": True}

        assert sum(seconds(work) for _ in range(20)) < 2
        assert seconds(client.get, "/") < 1
        assert seconds(client.get, "/v1/executions/e-5/history") < 0.5
        page, listed = client.get("/"), client.get("/v1/executions").json
        client.close()

        assert b"The newest 200 of 10,000 executions" in page.body
        assert len(listed) == 1_000
        assert len(page.body) < 200_000
        assert seconds(runtime.restart) < 10


def test_calls_that_change_nothing_for_them_leave_open_polls_alone(runtime: EmbeddedRuntime, client: Client) -> None:
    session = client.register()
    other = Client(runtime.url)
    poll = Background(other.poll, session, 20_000)
    waiting(runtime)
    (waiter,) = runtime._waiters._waiting
    asked = []
    is_gone = waiter.is_gone
    waiter.is_gone = lambda: asked.append(1) or is_gone()
    for _ in range(5):
        client.beat(session)
    assert asked == []
    client.start()

    assert poll.join().json["execution_id"] == "e-1"
    assert asked == [1]
    other.close()

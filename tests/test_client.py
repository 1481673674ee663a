import json

import pytest

from orbit_django.client import Client
from orbit_django.clock import FixedClock
from orbit_django.conf import OrbitSettings
from orbit_django.exceptions import ConfigurationError, NoAnswerError, PayloadError, RefusedError
from tests.transports import wire

SECRET = "adm-SECRET-1"
FORBIDDEN = wire.answer(
    '{"error": {"code": "FORBIDDEN", "message": "worker credentials may only call"}}', "403 Forbidden"
)


def client_of(server: wire.Server, token: str | None = SECRET, **options) -> Client:
    return Client(OrbitSettings(server=server.url, token=token, worker_token="wrk-SECRET-2"), **options)


def view(status: str, **fields: object) -> bytes:
    return wire.answer(json.dumps({"id": "e-1", "status": status, **fields}))


def test_start_returns_the_id() -> None:
    with wire.serving(wire.answer('{"execution_id": "e-1", "created": true}')) as server:
        assert client_of(server).start("Pay", {"order": 2**60}, execution_id="e-1") == "e-1"
    (request,) = server.requests
    assert request.line == "POST /v1/executions HTTP/1.1"
    assert json.loads(request.body) == {"workflow": "Pay", "input": {"order": 2**60}, "execution_id": "e-1"}
    assert request.headers["authorization"] == f"Bearer {SECRET}"


def test_start_makes_an_id_and_an_empty_input() -> None:
    with wire.serving(wire.answer("{}", "201 Created")) as server:
        started = client_of(server).start("Pay")
    assert started
    assert json.loads(server.requests[0].body) == {"workflow": "Pay", "input": {}, "execution_id": started}


@pytest.mark.parametrize("given", [{"n": float("nan")}, {"n": object()}, {1: 2}, {"t": "\ud800"}])
def test_start_refuses_what_json_does_not_have(given: object) -> None:
    with wire.serving() as server, pytest.raises(PayloadError, match="input"):
        client_of(server).start("Pay", given)
    assert server.requests == []


@pytest.mark.parametrize(
    ("execution_id", "path"), [("a/b?c d%", "a%2Fb%3Fc%20d%25"), ("größe", "gr%C3%B6%C3%9Fe"), ("...", "...")]
)
def test_an_id_is_one_segment_of_the_path(execution_id: str, path: str) -> None:
    with wire.serving(view("RUNNING")) as server:
        client_of(server).get(execution_id)
    assert server.requests[0].line == f"GET /v1/executions/{path} HTTP/1.1"


@pytest.mark.parametrize("execution_id", ["", ".", "..", "\ud800"])
def test_an_id_that_no_path_can_carry_is_refused(execution_id: str) -> None:
    with wire.serving() as server:
        for call in (client_of(server).get, client_of(server).wait, client_of(server).cancel):
            with pytest.raises(PayloadError, match="execution_id"):
                call(execution_id)
    assert server.requests == []


@pytest.mark.parametrize("status", ["COMPLETED", "FAILED", "CANCELLED", "TIMED_OUT"])
def test_wait_ends_with_a_final_status(status: str) -> None:
    with wire.serving(view("RUNNING"), view(status, output={"a": 1})) as server:
        found = client_of(server, pause=lambda _: None).wait("e-1")
    assert (found["status"], found["output"]) == (status, {"a": 1})
    assert [request.line for request in server.requests] == [
        "GET /v1/executions/e-1/wait?timeout_ms=20000 HTTP/1.1"
    ] * 2


def test_wait_gives_up_in_time_and_pauses_after_waits_that_ended_early() -> None:
    clock = FixedClock()
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        clock.advance(seconds)

    with wire.serving(view("RUNNING")) as server:
        found = client_of(server, clock=clock, pause=pause).wait("e-1", timeout_seconds=2.5)
    asked = [request.line.partition("=")[2].split()[0] for request in server.requests]
    assert found["status"] == "RUNNING"
    assert pauses == [1.0, 1.0, 0.5]
    assert asked == ["2500", "1500", "500", "1"]


def test_wait_may_only_look() -> None:
    with wire.serving(view("RUNNING")) as server:
        assert client_of(server).wait("e-1", timeout_seconds=0)["status"] == "RUNNING"
    assert len(server.requests) == 1


def test_cancel_sends_the_reason() -> None:
    with wire.serving(view("RUNNING")) as server:
        assert client_of(server).cancel("e-1", "customer withdrew")["status"] == "RUNNING"
    assert server.requests[0].line == "POST /v1/executions/e-1/cancel HTTP/1.1"
    assert json.loads(server.requests[0].body) == {"reason": "customer withdrew"}


@pytest.mark.parametrize("body", ['[{"worker_id": "a"}]', '{"workers": [{"worker_id": "a"}]}'])
def test_workers_are_listed(body: str) -> None:
    with wire.serving(wire.answer(body)) as server:
        assert client_of(server).workers() == [{"worker_id": "a"}]
    assert server.requests[0].line == "GET /v1/workers HTTP/1.1"


def test_a_strange_list_of_workers_is_no_answer() -> None:
    with wire.serving() as server, pytest.raises(NoAnswerError, match="workers"):
        client_of(server).workers()


def test_a_refusal_has_the_runtimes_words() -> None:
    missing = wire.answer('{"error": {"code": "UNKNOWN_WORKFLOW", "message": "no workflow `Pya`"}}', "404 Not Found")
    with wire.serving(missing) as server, pytest.raises(RefusedError, match="no workflow `Pya`") as caught:
        client_of(server).start("Pya")
    assert caught.value.code == "UNKNOWN_WORKFLOW"


def test_a_refusal_without_a_token_names_the_setting() -> None:
    with wire.serving(FORBIDDEN) as server, pytest.raises(ConfigurationError, match="TOKEN"):
        client_of(server, token=None).get("e-1")
    assert "authorization" not in server.requests[0].headers


def test_a_refusal_of_the_token_is_a_refusal() -> None:
    with wire.serving(FORBIDDEN) as server, pytest.raises(RefusedError, match="worker credentials"):
        client_of(server).get("e-1")


@pytest.mark.promise("W9")
def test_an_echoed_token_is_hidden() -> None:
    with wire.serving(wire.answer(f"not {SECRET}", "401 No")) as server, pytest.raises(RefusedError) as caught:
        client_of(server).get("e-1")
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("reply", [wire.hang_up, wire.answer("[]"), wire.answer("no", "502 Bad Gateway")])
def test_what_is_no_answer_is_said_to_be_none(reply: bytes | wire.Say) -> None:
    with wire.serving(reply) as server, pytest.raises(NoAnswerError):
        client_of(server).get("e-1")


def test_settings_are_loaded_when_none_are_given(settings) -> None:
    with wire.serving(view("COMPLETED")) as server:
        settings.ORBIT = {"SERVER": server.url, "TOKEN": SECRET}
        client = Client()
        assert client.get("e-1")["status"] == "COMPLETED"
        client.close()

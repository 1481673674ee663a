import json
import subprocess
import sys
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
from django.db import transaction

from orbit_django import client
from orbit_django.client import Client, start_on_commit
from orbit_django.clock import FixedClock
from orbit_django.conf import OrbitSettings
from orbit_django.exceptions import (
    ConfigurationError,
    NoAnswerError,
    PayloadError,
    PayloadTooLargeError,
    RefusedError,
    StartConflictError,
)
from orbit_django.models import WorkflowStart
from orbit_django.protocol import Contract
from orbit_django.tasks import Task
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
        loaded = Client()
        assert loaded.get("e-1")["status"] == "COMPLETED"
        loaded.close()


@pytest.fixture
def asked(settings, db) -> Callable[..., WorkflowStart]:
    settings.ORBIT = {"MAX_BODY_BYTES": 4096}

    def ask(*args: Any, **options: Any) -> WorkflowStart:
        return WorkflowStart.objects.get(execution_id=start_on_commit(*args, **options))

    return ask


@pytest.mark.promise("D1")
@pytest.mark.databases
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("is_atomic", [True, False])
def test_a_start_on_commit_is_a_row_and_no_call(asked, is_atomic: bool) -> None:
    with wire.serving() as server, transaction.atomic() if is_atomic else nullcontext():
        row = asked("Pay", {"order": 1}, execution_id="e-1")
    assert (row.workflow, row.input, row.status) == ("Pay", '{"order":1}', "pending")
    assert server.requests == []


def test_a_start_on_commit_makes_an_id_and_an_empty_input(asked) -> None:
    first, second = asked("Pay"), asked("Pay")
    assert first.execution_id != second.execution_id
    assert first.input == "{}"


def test_the_same_start_on_commit_is_one_and_another_is_reported(asked) -> None:
    assert asked("Pay", {"n": 1}, execution_id="e-1").pk == asked("Pay", {"n": 1.0}, execution_id="e-1").pk
    with pytest.raises(StartConflictError, match="another input"):
        asked("Pay", {"n": 2}, execution_id="e-1")


@pytest.mark.parametrize("given", [{"n": float("nan")}, [1], "text", 7, {"t": "\ud800"}])
def test_a_start_on_commit_refuses_what_is_no_json_object(asked, given: object) -> None:
    with pytest.raises(PayloadError, match="input"):
        asked("Pay", given)
    assert not WorkflowStart.objects.exists()


@pytest.mark.parametrize("execution_id", ["", ".", "..", "\ud800", "\x00"])
def test_a_start_on_commit_refuses_an_id_that_nobody_could_ask_for(asked, execution_id: str) -> None:
    with pytest.raises(PayloadError, match="execution_id"):
        asked("Pay", execution_id=execution_id)


def test_a_start_on_commit_measures_what_will_be_sent(asked) -> None:
    asked("Pay", {"text": "x" * 4000})
    with pytest.raises(PayloadTooLargeError, match="MAX_BODY_BYTES allows 4096"):
        asked("Pay", {"text": "x" * 4096})
    assert WorkflowStart.objects.count() == 1


def test_a_project_that_has_not_installed_the_app_is_told_to(child_environment) -> None:
    program = """
import django
from django.conf import settings
settings.configure(INSTALLED_APPS=[])
django.setup()
from orbit_django.client import start_on_commit
start_on_commit("Checkout")
"""
    done = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, env=child_environment)
    (*_, last) = done.stderr.decode().splitlines()
    told = 'add "orbit_django" to INSTALLED_APPS: start_on_commit needs its tables'
    assert last == f"django.core.exceptions.ImproperlyConfigured: {told}"


@pytest.mark.django_db(databases=["default", "other"])
def test_a_start_on_commit_goes_where_workers_look(asked, settings, monkeypatch) -> None:
    with pytest.raises(ConfigurationError, match="using='other': no worker looks for starts there"):
        asked("Pay", using="other")
    monkeypatch.setattr(client, "registry", [Task(Contract("a.b", "1"), print, using="other")])
    start_on_commit("Pay", execution_id="e-1", using="other")
    settings.ORBIT = {"DATABASE": "other"}
    start_on_commit("Pay", execution_id="e-2")
    assert [row.execution_id for row in WorkflowStart.objects.using("other").order_by("pk")] == ["e-1", "e-2"]
    assert not WorkflowStart.objects.exists()

import logging

import pytest

from orbit_django.exceptions import NoAnswerError, RefusedError, UnknownSessionError
from orbit_django.protocol import Kind, Receipt, Session
from orbit_django.transports import http
from orbit_django.transports.http import HttpTransport
from tests.transports import wire
from tests.transports.binding import (
    ASSIGNMENT,
    CALLS,
    REGISTRATION,
    SECRET,
    UNKNOWN,
    VERSION,
    every_call,
    refused,
    reply,
    sent,
    unanswered,
)


def test_register_announces_every_contract(runtime, transport: HttpTransport) -> None:
    reply(runtime, "register", {"accepted": True, "worker_session_id": "s-1", "heartbeat_interval_ms": "500",
                                "session_timeout_ms": 3000, "warnings": ["old version"]})  # fmt: skip
    assert transport.register(REGISTRATION) == Session("s-1", 500, 3000, ("old version",))
    assert sent(runtime) == {
        "worker_id": "shop-1",
        "runtime": "python",
        "contracts": [
            {"task_name": "pay.charge", "contract_version": "1.0.0"},
            {"task_name": "pay.charge", "contract_version": "2.0.0"},
        ],
        "sdk": "x/1",
    }


def test_poll_reads_an_assignment_with_exact_numbers(runtime, transport: HttpTransport) -> None:
    reply(runtime, "poll", ASSIGNMENT)
    assignment = transport.poll("s-1", 20_000)
    assert sent(runtime) == {"worker_session_id": "s-1", "wait_ms": 20_000}
    assert assignment is not None
    assert assignment.input == {"id": 9007199254740993, "who": "Zoë"}
    assert (assignment.token, assignment.attempt, assignment.redelivery) == ("task-1", 2, True)
    assert (assignment.deadline_ms, assignment.timeout_ms) == (1794736057501, 30_000)
    assert "task-1" not in repr(assignment)


def test_poll_finds_nothing(runtime, transport: HttpTransport) -> None:
    reply(runtime, "poll", status=204)
    assert transport.poll("s-1", 20_000) is None


@pytest.mark.parametrize(("given", "asked"), [(0, 1), (-5, 1), (60_001, 60_000), (1_500, 1_500)])
def test_poll_keeps_to_the_limits_of_waiting(runtime, transport: HttpTransport, given: int, asked: int) -> None:
    reply(runtime, "poll", status=204)
    transport.poll("s-1", given)
    assert sent(runtime)["wait_ms"] == asked


@pytest.mark.promise("W10")
@pytest.mark.parametrize(
    ("name", "limits"),
    [("register", (5, 10)), ("poll", (5, 35)), ("heartbeat", (3, 3)), ("complete", (5, 10)), ("unregister", (2, 2))],
)
def test_every_call_has_its_time(runtime, transport: HttpTransport, name: str, limits: tuple[int, int]) -> None:
    reply(runtime, name, status=503)
    unanswered(transport, name)
    assert runtime.calls[-1].request.req_kwargs["timeout"] == limits


@pytest.mark.parametrize(
    ("body", "cancelled"),
    [
        ({"accepted": True, "cancel": ["a", "b"]}, ("a", "b")),
        ({}, ()),
        ({"cancel": None}, ()),
        ({"cancel": "a"}, ()),
        ({"cancel": ["a", 7, None]}, ("a",)),
    ],
)
def test_heartbeat_reads_what_to_cancel(runtime, transport: HttpTransport, body: object, cancelled: object) -> None:
    reply(runtime, "heartbeat", body)
    assert transport.heartbeat("s-1", timeout_seconds=3) == cancelled
    assert sent(runtime) == {"worker_session_id": "s-1"}


@pytest.mark.parametrize("kind", Kind)
def test_send_reports_exactly_the_given_text(runtime, transport: HttpTransport, kind: Kind) -> None:
    reply(runtime, kind, {"accepted": False, "reason": "stale attempt"})
    body = '{"token":"task-1",  "output":{"who":"Zoë"}}'
    assert transport.send(kind, body) == Receipt(accepted=False, reason="stale attempt")
    assert runtime.calls[-1].request.body == body.encode()


def test_unregister_closes_the_session(runtime, transport: HttpTransport) -> None:
    reply(runtime, "unregister", {"accepted": True})
    transport.unregister("s-1", timeout_seconds=2)
    assert sent(runtime) == {"worker_session_id": "s-1"}


@pytest.mark.parametrize("name", ["poll", "heartbeat", "unregister"])
def test_a_lost_session_is_told_apart(runtime, transport: HttpTransport, name: str) -> None:
    reply(runtime, name, UNKNOWN, 404)
    with pytest.raises(UnknownSessionError, match="register again"):
        CALLS[name](transport)


@pytest.mark.parametrize("name", ["register", "complete", "fail"])
def test_a_call_without_session_cannot_lose_one(runtime, transport: HttpTransport, name: str) -> None:
    reply(runtime, name, UNKNOWN, 404)
    assert refused(transport, name).code == "UNKNOWN_SESSION"


@every_call
@pytest.mark.parametrize(
    ("status", "body"),
    [(404, "<html>Not Found</html>"), (404, {"error": {"code": 404, "message": "no route"}}), (404, {"error": "no"})],
)
def test_a_404_of_somebody_else_is_no_lost_session(
    runtime, transport: HttpTransport, name: str, status: int, body: object
) -> None:
    reply(runtime, name, body, status, {})
    assert not refused(transport, name).is_from_runtime


@pytest.mark.promise("W9")
@pytest.mark.parametrize("status", [401, 404, 503])
def test_an_echoed_secret_is_hidden(runtime, transport: HttpTransport, status: int) -> None:
    echo = f"Bearer {SECRET} for task-1"
    for body in (echo, {"error": {"code": f"X {SECRET}", "message": echo}}):
        reply(runtime, "complete", body, status)
        with pytest.raises((RefusedError, NoAnswerError)) as caught:
            CALLS["complete"](transport)
        assert SECRET not in str(caught.value)
        assert "task-1" not in str(caught.value)


@pytest.mark.promise("W9")
def test_a_secret_at_the_cut_is_hidden_as_a_whole(runtime, transport: HttpTransport) -> None:
    reply(runtime, "poll", "x" * 495 + SECRET, 400)
    assert SECRET[:4] not in refused(transport, "poll").message


def test_a_long_text_is_cut_and_kept_on_one_line(runtime, transport: HttpTransport) -> None:
    reply(runtime, "poll", "line\n" * 10_000, 400)
    message = refused(transport, "poll").message
    assert len(message) == 500
    assert "\n" not in message


@pytest.mark.parametrize("version", ["orbit-api/2", ""])
def test_another_protocol_version_is_warned_of_once(
    runtime, transport: HttpTransport, version: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(http, "_has_warned", type(http._has_warned)())
    reply(runtime, "poll", "", 204, {"x-orbit-api-version": version})
    with caplog.at_level(logging.WARNING, "orbit_django"):
        assert transport.poll("s-1", 1) is None
        assert transport.poll("s-1", 1) is None
    assert len(caplog.records) == 1


@pytest.mark.parametrize("headers", [{}, VERSION])
def test_no_version_or_the_known_one_is_not_worth_a_word(
    runtime, transport: HttpTransport, headers: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    reply(runtime, "poll", "", 204, headers)
    with caplog.at_level(logging.WARNING, "orbit_django"):
        transport.poll("s-1", 1)
    assert caplog.records == []


def test_over_a_real_socket() -> None:
    receipt = wire.answer('{"accepted": true}', x_orbit_api_version="orbit-api/1")
    with wire.serving(receipt, wire.answer("", "204 No Content", content_length="0")) as server:
        transport = HttpTransport(server.url, credential=lambda: None)
        assert transport.server == server.url
        assert transport.send(Kind.FAIL, "{}").accepted
        assert transport.poll("s-1", 1) is None
        transport.close()
    assert [request.line for request in server.requests] == [
        "POST /v1/tasks/fail HTTP/1.1",
        "POST /v1/workers/poll HTTP/1.1",
    ]
    assert "authorization" not in server.requests[0].headers


@pytest.mark.promise("W9")
def test_repr_and_log_lines_hold_no_secret(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG), wire.serving(wire.answer("no", "401 Unauthorized")) as server:
        transport = HttpTransport(server.url, credential=lambda: SECRET)
        error = refused(transport, "complete")
    shown = f"{transport!r} {transport._connection!r} {error!r} {caplog.text}"
    assert SECRET not in shown
    assert "task-1" not in shown

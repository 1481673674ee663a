import json
import logging

import pytest
import responses

from orbit_django.exceptions import NoAnswerError, RefusedError, UnknownSessionError
from orbit_django.protocol import Contract, Kind, Receipt, Registration, Session
from orbit_django.transports import http
from orbit_django.transports.http import HttpTransport
from tests.transports import wire

SERVER = "http://runtime.test:7233"
SECRET = "tok-SECRET-1"
VERSION = {"x-orbit-api-version": "orbit-api/1"}
REGISTRATION = Registration(
    "shop-1", "python", (Contract("pay.charge", "1.0.0"), Contract("pay.charge", "2.0.0")), "x/1"
)
ASSIGNMENT = {
    "token": "task-1",
    "execution_id": "e-1",
    "workflow": "Pay",
    "workflow_version": "1.0.0",
    "step_id": "charge",
    "task_name": "pay.charge",
    "contract_version": "1.0.0",
    "input": {"id": 9007199254740993, "who": "Zoë"},
    "idempotency_key": "e-1/charge",
    "attempt": 2,
    "redelivery": True,
    "deadline_ms": 1794736057501,
    "timeout_ms": "30000",
    "unheard_of": [],
}
UNKNOWN = {"error": {"code": "UNKNOWN_SESSION", "message": "unknown or expired worker session; register again"}}
CALLS = {
    "register": lambda transport: transport.register(REGISTRATION),
    "poll": lambda transport: transport.poll("s-1", 20_000),
    "heartbeat": lambda transport: transport.heartbeat("s-1", timeout_seconds=3),
    "complete": lambda transport: transport.send(Kind.COMPLETE, '{"token":"task-1","output":{}}'),
    "fail": lambda transport: transport.send(Kind.FAIL, '{"token":"task-1","error_code":"X"}'),
    "unregister": lambda transport: transport.unregister("s-1", timeout_seconds=2),
}
PATHS = {name: f"/v1/{'tasks' if name in ('complete', 'fail') else 'workers'}/{name}" for name in CALLS}
every_call = pytest.mark.parametrize("name", CALLS)


@pytest.fixture
def runtime():
    with responses.RequestsMock() as mocked:
        yield mocked


@pytest.fixture
def transport() -> HttpTransport:
    return HttpTransport(SERVER, credential=lambda: SECRET)


def reply(runtime, name: str, body: object = "", status: int = 200, headers: dict[str, str] | None = None) -> None:
    text = body if isinstance(body, str | bytes) else json.dumps(body)
    runtime.post(SERVER + PATHS[name], body=text, status=status, headers=VERSION if headers is None else headers)


def sent(runtime) -> object:
    return json.loads(runtime.calls[-1].request.body)


def refused(transport: HttpTransport, name: str) -> RefusedError:
    with pytest.raises(RefusedError) as caught:
        CALLS[name](transport)
    return caught.value


def unanswered(transport: HttpTransport, name: str) -> NoAnswerError:
    with pytest.raises(NoAnswerError) as caught:
        CALLS[name](transport)
    return caught.value


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


@every_call
@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 413, 429])
def test_an_error_object_is_a_refusal_of_the_runtime(runtime, transport: HttpTransport, name: str, status: int) -> None:
    reply(runtime, name, {"error": {"code": "FORBIDDEN", "message": "not yours"}}, status, {})
    error = refused(transport, name)
    assert (error.status, error.code, error.message, error.is_from_runtime) == (status, "FORBIDDEN", "not yours", True)


@pytest.mark.parametrize("status", [400, 413, 415, 422])
def test_plain_text_with_the_version_header_is_a_refusal_of_the_runtime(
    runtime, transport: HttpTransport, status: int
) -> None:
    reply(runtime, "complete", "missing field `token`", status)
    error = refused(transport, "complete")
    assert (error.code, error.message, error.is_from_runtime) == ("", "missing field `token`", True)


@pytest.mark.parametrize("status", [201, 202, 302, 307, 400, 401, 403, 404, 408, 413, 415, 422, 425, 429])
def test_any_other_answer_is_a_refusal_of_somebody_else(runtime, transport: HttpTransport, status: int) -> None:
    reply(runtime, "complete", "<html>who knows</html>", status, {})
    error = refused(transport, "complete")
    assert (error.status, error.code, error.is_from_runtime) == (status, "", False)


@pytest.mark.parametrize("status", [401, 403, 404, 429])
def test_the_version_header_alone_proves_nothing(runtime, transport: HttpTransport, status: int) -> None:
    reply(runtime, "complete", "no", status)
    assert not refused(transport, "complete").is_from_runtime


@pytest.mark.parametrize("name", ["register", "heartbeat", "complete", "unregister"])
def test_only_poll_may_have_no_content(runtime, transport: HttpTransport, name: str) -> None:
    reply(runtime, name, status=204)
    assert refused(transport, name).status == 204


@every_call
@pytest.mark.parametrize(
    ("body", "is_maybe_processed"),
    [
        ({"error": {"code": "NOT_LEADER", "message": "ask another"}}, False),
        ("<html>Bad Gateway</html>", True),
        ("", True),
    ],
)
def test_5xx_is_no_answer(runtime, transport: HttpTransport, name: str, body: object, is_maybe_processed: bool) -> None:
    reply(runtime, name, body, 503)
    error = unanswered(transport, name)
    assert error.is_maybe_processed is is_maybe_processed
    assert "503" in str(error)


@every_call
@pytest.mark.parametrize(
    "body",
    [
        "", "<html>", '{"accepted": tr', b'{"a": "\xff"}', "[]", "null", '"text"', '{"accepted": NaN}', "[" * 100_000,
        "1" * 5000,
    ],
)  # fmt: skip
def test_an_unreadable_200_is_no_answer(runtime, transport: HttpTransport, name: str, body: str | bytes) -> None:
    reply(runtime, name, body)
    assert unanswered(transport, name).is_maybe_processed


@pytest.mark.parametrize("lacking", ["token", "task_name", "input"])
def test_an_assignment_that_lacks_something_is_no_answer(runtime, transport: HttpTransport, lacking: str) -> None:
    reply(runtime, "poll", {name: value for name, value in ASSIGNMENT.items() if name != lacking})
    assert lacking in str(unanswered(transport, "poll"))


def test_an_acknowledgement_without_accepted_is_no_answer(runtime, transport: HttpTransport) -> None:
    reply(runtime, "complete", {"accepted": "yes"})
    assert unanswered(transport, "complete").is_maybe_processed


def test_a_byte_order_mark_changes_nothing(runtime, transport: HttpTransport) -> None:
    reply(runtime, "complete", b'\xef\xbb\xbf{"accepted": true}')
    assert transport.send(Kind.COMPLETE, "{}").accepted


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

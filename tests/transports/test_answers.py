import pytest

from orbit_django.protocol import Kind
from orbit_django.transports.http import HttpTransport
from tests.transports.binding import ASSIGNMENT, every_call, refused, reply, unanswered


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


@pytest.mark.parametrize("status", [302, 307, 400, 401, 403, 404, 408, 413, 415, 422, 425, 429])
def test_any_other_answer_is_a_refusal_of_somebody_else(runtime, transport: HttpTransport, status: int) -> None:
    reply(runtime, "complete", "<html>who knows</html>", status, {})
    error = refused(transport, "complete")
    assert (error.status, error.code, error.is_from_runtime) == (status, "", False)


@every_call
@pytest.mark.parametrize("body", ["<!DOCTYPE html><html><body>Page not found</body></html>", "\n <HTML>who knows"])
def test_a_page_is_not_quoted(runtime, transport: HttpTransport, name: str, body: str) -> None:
    reply(runtime, name, body, 404, {})
    assert str(refused(transport, name)) == "404 with an HTML page: no ORBIT runtime is there; look at SERVER"
    reply(runtime, name, body, 200, {})
    assert str(unanswered(transport, name)) == "200 with an HTML page: no ORBIT runtime is there; look at SERVER"
    reply(runtime, name, body, 502, {})
    assert str(unanswered(transport, name)).startswith("502 with an HTML page: ")


def test_a_page_is_known_by_its_media_type(runtime, transport: HttpTransport) -> None:
    reply(runtime, "complete", "not found", 404, {"content-type": "text/html; charset=utf-8"})
    assert str(refused(transport, "complete")).startswith("404 with an HTML page: ")


@pytest.mark.parametrize("status", [401, 403, 404, 429])
def test_the_version_header_alone_proves_nothing(runtime, transport: HttpTransport, status: int) -> None:
    reply(runtime, "complete", "no", status)
    assert not refused(transport, "complete").is_from_runtime


@pytest.mark.promise("D1")
@pytest.mark.parametrize("status", [201, 202, 204])
def test_a_report_is_acknowledged_by_a_200_alone(runtime, transport: HttpTransport, status: int) -> None:
    reply(runtime, "complete", status=status)
    assert str(status) in str(unanswered(transport, "complete"))


@pytest.mark.parametrize("name", ["register", "heartbeat", "unregister"])
def test_only_poll_may_have_no_content(runtime, transport: HttpTransport, name: str) -> None:
    reply(runtime, name, status=204)
    assert refused(transport, name).status == 204


@every_call
@pytest.mark.parametrize("body", [{"error": {"code": "STORAGE", "message": "trouble"}}, "<html>Bad Gateway</html>", ""])
def test_5xx_is_no_answer_and_may_have_been_processed(
    runtime, transport: HttpTransport, name: str, body: object
) -> None:
    reply(runtime, name, body, 503)
    error = unanswered(transport, name)
    assert error.is_maybe_processed
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


def test_an_assignment_without_a_token_is_no_answer(runtime, transport: HttpTransport) -> None:
    reply(runtime, "poll", {name: value for name, value in ASSIGNMENT.items() if name != "token"})
    assert "token" in str(unanswered(transport, "poll"))


@pytest.mark.parametrize("lacking", ["task_name", "input"])
def test_an_assignment_that_lacks_something_else_can_be_answered(
    runtime, transport: HttpTransport, lacking: str
) -> None:
    reply(runtime, "poll", {name: value for name, value in ASSIGNMENT.items() if name != lacking})
    assignment = transport.poll("s-1", 1)
    assert assignment is not None
    assert (assignment.token, assignment.input.path) == (ASSIGNMENT["token"], f"$.{lacking}")


def test_an_acknowledgement_without_accepted_is_no_answer(runtime, transport: HttpTransport) -> None:
    reply(runtime, "complete", {"accepted": "yes"})
    assert unanswered(transport, "complete").is_maybe_processed


def test_a_byte_order_mark_changes_nothing(runtime, transport: HttpTransport) -> None:
    reply(runtime, "complete", b'\xef\xbb\xbf{"accepted": true}')
    assert transport.send(Kind.COMPLETE, "{}").accepted

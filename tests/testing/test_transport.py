import pytest

from orbit_django.exceptions import NoAnswerError
from orbit_django.protocol import Kind, Receipt, Registration, Session
from orbit_django.testing.transport import RecordingTransport
from orbit_django.transports.base import Transport

REGISTRATION = Registration("shop-1", "python", (), "x/1")


def test_succeeds_by_default() -> None:
    transport: Transport = RecordingTransport()
    assert [transport.register(REGISTRATION).session_id for _ in range(2)] == ["session-1", "session-2"]
    assert transport.poll("session-1", 20) is None
    assert transport.heartbeat("session-1", timeout_seconds=1) == ()
    assert transport.send(Kind.COMPLETE, "{}") == Receipt(accepted=True)
    transport.unregister("session-1", timeout_seconds=1)
    transport.close()
    assert transport.is_closed


def test_answers_as_scripted_and_records_what_was_asked() -> None:
    transport = RecordingTransport()
    transport.script("send", NoAnswerError("down"), Receipt(accepted=False, reason="stale attempt"))
    transport.script("register", Session("mine", 1, 2))
    with pytest.raises(NoAnswerError, match="down"):
        transport.send(Kind.FAIL, "a")
    assert transport.send(Kind.FAIL, "b").reason == "stale attempt"
    assert transport.send(Kind.FAIL, "c").accepted
    assert transport.register(REGISTRATION).session_id == "mine"
    assert transport.named("send") == [(Kind.FAIL, "a"), (Kind.FAIL, "b"), (Kind.FAIL, "c")]

import threading

import pytest

from orbit_django.contracts import read
from orbit_django.embedded.recorder import Exchange, Recorder, without_secrets
from orbit_django.embedded.server import EmbeddedRuntime
from tests.contracts.texts import GREET
from tests.embedded.wire import Client


def exchange(call: str = "poll", at: float = 1.0) -> Exchange:
    return Exchange(at, "POST", f"/v1/workers/{call}", call, {}, b"{}")


def test_a_log_can_be_kept_short() -> None:
    recorder = Recorder(2)
    for call in ("poll", "fail", "complete"):
        recorder.begin(exchange(call))
    assert [one.call for one in recorder.exchanges] == ["fail", "complete"]


def test_every_request_is_in_the_log_and_no_credential() -> None:
    recorder = Recorder()
    with EmbeddedRuntime(read(GREET), token="admin-secret", max_body=500, recorder=recorder) as runtime:
        client, stranger = Client(runtime.url, "admin-secret"), Client(runtime.url)
        session = client.register()
        client.poll(session)
        client.send("POST", "/v1/tasks/complete", b"x" * 501)
        client.get("/v1/executions/nowhere?timeout_ms=1")
        stranger.post("/v1/workers/heartbeat", {"worker_session_id": session})
        client.close()
        stranger.close()
    register, poll, complete, get, refused = recorder.exchanges

    assert (register.method, register.path, register.call) == ("POST", "/v1/workers/register", "register")
    assert register.json["worker_id"] == "w-1"
    assert register.headers["authorization"] == "Bearer ***"
    assert register.headers["content-type"] == "application/json"
    assert (register.status, register.answer_json["worker_session_id"]) == (200, session)
    assert (poll.json["wait_ms"], poll.status, poll.answer) == (0, 204, b"")
    assert (complete.body, complete.status) == (None, 413)
    assert (get.call, get.path, get.status) == ("other", "/v1/executions/nowhere", 404)
    assert (refused.status, "authorization" in refused.headers) == (401, False)
    assert register.at <= register.ended_at <= poll.at
    assert "admin-secret" not in repr(recorder.exchanges)


def test_what_is_not_answered_yet_is_seen_already() -> None:
    recorder = Recorder()
    open_one = exchange()
    recorder.begin(open_one)

    assert [(seen.status, seen.ended_at) for seen in recorder.of("poll")] == [(None, None)]
    recorder.end(open_one, 204)
    assert recorder.exchanges[0].status == 204
    assert recorder.exchanges[0].ended_at is not None


def test_the_log_by_call_and_moment() -> None:
    recorder = Recorder()
    for number, call in enumerate(("poll", "heartbeat", "poll")):
        recorder.begin(exchange(call, float(number)))

    assert [seen.at for seen in recorder.of("poll")] == [0, 2]
    assert [seen.at for seen in recorder.of("poll", "heartbeat", since=1.0)] == [1, 2]
    recorder.clear()
    assert recorder.exchanges == []


def test_a_test_can_wait_for_what_it_wants_to_see() -> None:
    recorder = Recorder()
    late = threading.Timer(0.02, recorder.begin, [exchange()])
    late.start()

    assert recorder.wait(lambda seen: len(seen) == 1)
    with pytest.raises(TimeoutError, match=r"not seen within 0\.01 s, in 1 requests"):
        recorder.wait(lambda seen: len(seen) == 2, 0.01)
    late.join()


@pytest.mark.parametrize(
    ("credential", "shown"), [("Bearer abc", "Bearer ***"), ("abc", "***"), ("Basic a b", "Basic ***")]
)
def test_of_a_credential_only_the_scheme_is_left(credential: str, shown: str) -> None:
    assert without_secrets({"Authorization": credential, "X": "y"}) == {"authorization": shown, "x": "y"}

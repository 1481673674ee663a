"""Tokens: given, in a file, fetched; renewed ahead of their end, and once when they are not accepted."""

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from orbit_django.conf.weave import OAuthSettings
from orbit_django.exceptions import ConfigurationError, NoAnswerError, RefusedError
from orbit_django.redaction import redacted
from orbit_django.transports.weave import WeaveTransport
from tests.transports.weave.scene import WAIT_MS, Scene


@pytest.fixture
def fetching(scene: Scene) -> Iterator[WeaveTransport]:
    made = scene.transport = scene.made(oauth=scene.oauth(), token=None)
    yield made
    made.close()


def test_a_token_is_fetched_once_for_all_threads(scene: Scene, fetching: WeaveTransport) -> None:
    scene.register()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: fetching.poll(scene.worker_id, 200), range(8)))
    assert len(scene.sent("token")) == 1
    sent = (scene.sent("token")[0].body or b"").decode()
    assert "grant_type=client_credentials" in sent
    assert "client_id=worker" in sent


def test_a_token_is_renewed_ahead_of_its_end_without_a_refused_call() -> None:
    scene = Scene(token_seconds=3)
    try:
        scene.transport = scene.made(oauth=scene.oauth(), token=None)
        scene.register()
        for _ in range(6):
            scene.transport.poll(scene.worker_id, 700)
        assert len(scene.sent("token")) >= 2
        assert {one.status for one in scene.sent("claim")} == {200}
    finally:
        scene.close()


def test_while_the_issuer_is_away_the_old_token_is_used_to_its_end() -> None:
    scene = Scene(token_seconds=6)
    try:
        scene.transport = scene.made(oauth=scene.oauth(), token=None)
        scene.register()
        scene.faults.add("drop", "token", times=1)
        threading.Event().wait(4.2)
        assert scene.transport.poll(scene.worker_id, 200) is None
        assert [one.status for one in scene.sent("claim")] == [200] * len(scene.sent("claim"))
    finally:
        scene.close()


@pytest.mark.clause("V11")
def test_an_expired_token_is_renewed_once_and_the_same_bytes_go_again(scene: Scene, fetching: WeaveTransport) -> None:
    given = scene.poll()
    scene.call("expire_tokens")
    assert scene.complete(given).accepted
    tries = scene.sent("complete")
    assert [one.status for one in tries] == [401, 200]
    assert tries[0].body == tries[1].body


@pytest.mark.clause("V11", "V85")
def test_a_token_that_is_never_accepted_is_tried_twice(scene: Scene, fetching: WeaveTransport) -> None:
    given = scene.poll()
    scene.faults.add("status", "complete", value=401, times=9)
    with pytest.raises(RefusedError) as caught:
        scene.complete(given)
    assert (caught.value.status, len(scene.sent("complete"))) == (401, 2)


@pytest.mark.clause("V85")
def test_a_given_token_that_expired_is_not_tried_again(scene: Scene) -> None:
    given = scene.poll()
    scene.call("expire_tokens")
    with pytest.raises(RefusedError, match="WV-UNAUTHENTICATED"):
        scene.complete(given)
    assert len(scene.sent("complete")) == 1


def test_a_token_file_is_read_again(scene: Scene, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(scene.call("issue_token", name="worker"))
    scene.transport = scene.made(token_file=str(file), token=None)
    given = scene.poll()
    scene.call("expire_tokens")
    file.write_text(scene.call("issue_token", name="worker") + "\n")
    assert scene.complete(given).accepted


def test_a_client_that_is_refused_is_a_mistake_at_the_start_and_trouble_later(scene: Scene) -> None:
    wrong = OAuthSettings(token_url=scene.weave.token_url, client_id="worker", client_secret="wrong-secret-1")
    scene.transport = scene.made(oauth=wrong, token=None)
    with pytest.raises(RefusedError, match=r"TOKEN_URL.* 401 invalid_client; look at CLIENT_ID") as caught:
        scene.transport.register(scene.registration())
    assert "wrong-secret-1" not in str(caught.value)
    with pytest.raises(NoAnswerError):
        scene.transport.poll("any", WAIT_MS)


def test_an_issuer_that_is_away_is_no_mistake(scene: Scene) -> None:
    away = OAuthSettings(token_url="http://127.0.0.1:9/token", client_id="worker", client_secret="secret-123")
    with pytest.raises(NoAnswerError, match="TOKEN_URL"):
        scene.made(oauth=away, token=None).register(scene.registration())


def test_the_secret_may_be_in_a_file(scene: Scene, tmp_path: Path) -> None:
    file = tmp_path / "secret"
    settings = OAuthSettings(
        token_url=scene.weave.token_url, client_id="worker", client_secret_file=str(file), scope="a b", audience="c"
    )
    scene.transport = scene.made(oauth=settings, token=None)
    with pytest.raises(ConfigurationError, match="CLIENT_SECRET_FILE"):
        scene.transport.register(scene.registration())
    file.write_text(str(scene.oauth().client_secret))
    assert scene.transport.register(scene.registration()).session_id
    assert "scope=a+b&audience=c" in (scene.sent("token")[0].body or b"").decode()


def test_no_text_shows_a_token_or_a_proof(scene: Scene, fetching: WeaveTransport) -> None:
    given = scene.poll()
    secret = json.loads(given.token)["token"]
    token = fetching._calls.tokens.current()
    assert redacted(f"{secret} {token} {given.token}").count("********") >= 3
    assert secret not in repr(given)
    assert secret not in repr(scene.settings(oauth=scene.oauth()))

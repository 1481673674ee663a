from email.utils import formatdate
from pathlib import Path
from time import time
from typing import Any

import pytest

from orbit_django.conf import OrbitSettings
from orbit_django.contracts import read
from orbit_django.doctor.findings import Finding, Level
from orbit_django.doctor.runtime import look_at_runtime
from orbit_django.embedded.server import EmbeddedRuntime
from orbit_django.embedded.views import workers_view
from tests.transports import wire
from tests.transports.certificates import Authority
from tests.worker.staging import WORKFLOWS

UNKNOWN = '{"error": {"code": "UNKNOWN_SESSION", "message": "no"}}'


def looked(**settings: Any) -> dict[str, Finding]:
    """Return what is found, by what it is about."""
    return {finding.about: finding for finding in look_at_runtime(OrbitSettings(**settings))}


def test_a_worker_token_and_an_admin_token(runtime: EmbeddedRuntime) -> None:
    found = looked(server=runtime.url, worker_token="wrk-SECRET", token="adm-SECRET")

    assert [finding.level for finding in found.values() if finding.about != "clock"] == [Level.OK] * 5
    assert found["credential"].text == "WORKER_TOKEN is accepted, for a worker's calls and no others"
    assert found["version"].text == "orbit-api/1"


def test_nothing_is_left_behind(runtime: EmbeddedRuntime) -> None:
    looked(server=runtime.url, worker_token="wrk-SECRET", token="adm-SECRET")
    looked(server=runtime.url, worker_token="wrk-IDENTITY", worker_id="shop-1")

    with runtime.lock:
        assert workers_view(runtime.runtime) == []
    assert {call.name for call in runtime.faults.calls} == {"heartbeat", "other"}, "the other asks for the workers"


def test_the_admin_token_as_credential_is_too_much(runtime: EmbeddedRuntime) -> None:
    found = looked(server=runtime.url, token="adm-SECRET")

    assert found["credential"].level is Level.NOTE
    assert found["credential"].text == "TOKEN is accepted, as the admin token"


def test_an_identity_is_accepted_whatever_it_is_for(runtime: EmbeddedRuntime) -> None:
    found = looked(server=runtime.url, worker_token="wrk-IDENTITY", worker_id="shop-2")
    assert found["credential"].level is Level.OK


@pytest.mark.parametrize("token", ["wrk-OTHER-SECRET", None])
def test_a_credential_that_is_not_accepted(runtime: EmbeddedRuntime, token: str | None) -> None:
    found = looked(server=runtime.url, worker_token=token)

    assert found["credential"].level is Level.WRONG
    assert found["credential"].text.startswith("WORKER_TOKEN is not" if token else "the runtime wants a credential")
    assert "SECRET" not in str(found)


def test_an_admin_token_that_is_none(runtime: EmbeddedRuntime) -> None:
    found = looked(server=runtime.url, worker_token="wrk-SECRET", token="wrk-SECRET")

    assert found["admin token"].level is Level.WRONG


def test_a_runtime_that_is_away() -> None:
    with wire.serving(wire.answer()) as server:
        url = server.url
    found = looked(server=url)

    assert list(found) == ["address", "runtime"]
    assert (found["runtime"].level, "nothing listens" in found["runtime"].text) == (Level.WRONG, True)


def test_a_runtime_that_wants_no_credential() -> None:
    with EmbeddedRuntime(read(WORKFLOWS)) as runtime:
        found = looked(server=runtime.url)

    assert (found["credential"].level, found["admin token"].level) == (Level.NOTE, Level.OK)
    assert found["admin token"].text == "none is set, and the runtime wants none to start workflows"


def test_a_worker_with_a_credential_and_no_admin_token_leaves_starts_to_others() -> None:
    with EmbeddedRuntime(read(WORKFLOWS)) as runtime:
        found = looked(server=runtime.url, worker_token="wrk-SECRET")["admin token"]

    assert (found.level, found.text) == (Level.NOTE, "TOKEN is not set")
    assert "start_on_commit" in found.advice


@pytest.mark.parametrize(("seconds", "level"), [(0, Level.OK), (3, Level.OK), (60, Level.WRONG), (-60, Level.WRONG)])
def test_clocks_that_differ(seconds: float, level: Level) -> None:
    headers = {"date": formatdate(time() - seconds, usegmt=True), "x_orbit_api_version": "orbit-api/1"}
    with wire.serving(wire.answer(UNKNOWN, "404 Not Found", **headers)) as server:
        found = looked(server=server.url, worker_token="wrk-SECRET")["clock"]

    assert found.level is level
    assert level is Level.OK or ("ahead of" if seconds > 0 else "behind") in found.text


@pytest.mark.parametrize(
    ("headers", "level"),
    [({"x_orbit_api_version": "orbit-api/2"}, Level.NOTE), ({}, Level.WRONG)],
)
def test_another_version_or_something_else(headers: dict[str, str], level: Level) -> None:
    with wire.serving(wire.answer(UNKNOWN, "404 Not Found", **headers)) as server:
        assert looked(server=server.url)["version"].level is level


@pytest.mark.parametrize(
    ("body", "status", "told"),
    [
        ("<html>hello</html>", "200 OK", "200 with an HTML page"),
        ("<html>hello</html>", "404 Not Found", "404 with an HTML page"),
        ("{}", "404 Not Found", "404 without an ORBIT error code: {}"),
        ("it works", "200 OK", "200 without an ORBIT error code: it works"),
        ("", "502 Bad Gateway", "502 without an ORBIT error code"),
    ],
)
def test_what_is_no_runtime_is_no_matter_of_credentials(body: str, status: str, told: str) -> None:
    with wire.serving(
        wire.answer(body, status, content_type="text/html" if "html" in body else "text/plain")
    ) as server:
        found = looked(server=server.url, worker_token="wrk-SECRET")

    assert list(found) == ["address", "runtime"]
    assert (found["runtime"].level, found["runtime"].advice[:14]) == (Level.WRONG, "correct SERVER")
    assert found["runtime"].text.startswith(f"what answers there is no ORBIT runtime: {told}")


def test_a_guard_before_a_runtime_is_a_matter_of_credentials() -> None:
    with wire.serving(wire.answer("forbidden", "403 Forbidden", content_type="text/plain")) as server:
        found = looked(server=server.url, worker_token="wrk-SECRET")

    assert found["credential"].text == "a heartbeat was answered 403 without an ORBIT error code: forbidden"


def test_the_chain_of_a_server(tmp_path: Path) -> None:
    authority = Authority(tmp_path, "our-authority")
    with wire.serving(wire.answer(UNKNOWN, "404 Not Found"), tls=authority.server_context()) as server:
        found = looked(server=server.url, ca_cert=str(authority.certificate))["TLS"]
        assert (found.level, "issued by our-authority" in found.text) == (Level.NOTE, True)
        assert "expires on" in found.text
        found = looked(server=server.url)["runtime"]
        assert (found.level, "certificate was not accepted" in found.text) == (Level.WRONG, True)


def test_a_token_that_would_travel_openly() -> None:
    found = next(iter(look_at_runtime(OrbitSettings(server="http://203.0.113.1:9"))))

    assert (found.about, found.level) == ("address", Level.NOTE)

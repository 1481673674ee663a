import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest

from orbit_django.conf import OrbitSettings
from orbit_django.contracts import read
from orbit_django.doctor import grpc as side
from orbit_django.doctor.examination import examine
from orbit_django.doctor.findings import Finding, Level
from orbit_django.doctor.grpc import look_at_grpc
from orbit_django.embedded.server import EmbeddedRuntime, server_context
from orbit_django.embedded.views import workers_view
from orbit_django.exceptions import ConfigurationError
from orbit_django.tasks import Registry
from tests.transports.certificates import Authority
from tests.worker.staging import WORKFLOWS


def looked(runtime: EmbeddedRuntime | None = None, **settings: Any) -> dict[str, Finding]:
    """Return what is found, by what it is about."""
    if runtime is not None:
        settings = {"server": runtime.url, "grpc_target": runtime.grpc_target} | settings
    found = list(look_at_grpc(OrbitSettings(transport="grpc", **settings)))
    assert "SECRET" not in str(found)
    assert all(finding.advice for finding in found if finding.level is Level.WRONG)
    assert len({finding.about for finding in found}) == len(found), "one line each"
    return {finding.about: finding for finding in found}


def test_a_runtime_that_answers_and_a_token_that_it_accepts(runtime: EmbeddedRuntime) -> None:
    found = looked(runtime, worker_token="wrk-SECRET")

    assert [(about, finding.level) for about, finding in found.items()] == [
        ("gRPC", Level.OK),
        ("gRPC version", Level.OK),
        ("gRPC credential", Level.OK),
    ]
    assert found["gRPC"].text.startswith(f"{runtime.grpc_target} answers, in ")
    assert found["gRPC version"].text == "orbit.worker.v1"
    assert found["gRPC credential"].text == "WORKER_TOKEN is accepted"


def test_nothing_is_left_behind(runtime: EmbeddedRuntime) -> None:
    looked(runtime, worker_token="wrk-SECRET")

    with runtime.lock:
        assert workers_view(runtime.runtime) == []
    assert [call.name for call in runtime.faults.calls] == ["heartbeat"]


@pytest.mark.parametrize("token", ["wrk-OTHER-SECRET", None])
def test_a_credential_that_is_not_accepted(runtime: EmbeddedRuntime, token: str | None) -> None:
    found = looked(runtime, worker_token=token)["gRPC credential"]

    assert found.level is Level.WRONG
    assert found.text.startswith("WORKER_TOKEN is not" if token else "the runtime wants a credential")
    assert "WORKER_TOKEN_FILE" in found.advice


@pytest.mark.parametrize(
    ("fault", "value", "text"),
    [
        ("status", (403, "FORBIDDEN"), "a heartbeat was answered 403 FORBIDDEN"),
        ("answer", {"cancel": []}, "a heartbeat was answered as if that session were there"),
    ],
)
def test_a_heartbeat_that_is_answered_otherwise(runtime: EmbeddedRuntime, fault: str, value: object, text: str) -> None:
    runtime.faults.add(fault, "heartbeat", value=value)
    found = looked(runtime, worker_token="wrk-SECRET")["gRPC credential"]
    assert (found.level, found.text.startswith(text)) == (Level.WRONG, True)


def test_a_runtime_that_wants_no_credential() -> None:
    with EmbeddedRuntime(read(WORKFLOWS), grpc_port=0) as runtime:
        assert looked(runtime)["gRPC credential"].level is Level.NOTE


def test_a_target_where_nobody_listens(runtime: EmbeddedRuntime) -> None:
    runtime.stop()
    found = looked(runtime, worker_token="wrk-SECRET")

    assert list(found) == ["gRPC"]
    assert (found["gRPC"].level, "nothing listens" in found["gRPC"].text) == (Level.WRONG, True)
    assert "--grpc-addr" in found["gRPC"].advice


def test_a_target_that_accepts_and_never_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(side, "CALL_SECONDS", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        found = looked(grpc_target=f"127.0.0.1:{silent.getsockname()[1]}")
    assert [(about, finding.level) for about, finding in found.items()] == [("gRPC", Level.WRONG)]


def test_a_server_of_something_else() -> None:
    with ThreadPoolExecutor(1) as threads:
        server = grpc.server(threads, options=[("grpc.so_reuseport", 0)])
        target = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
        server.start()
        found = looked(grpc_target=target, worker_token="wrk-SECRET")
        server.stop(None).wait()

    assert list(found) == ["gRPC", "gRPC version"]
    assert (found["gRPC version"].level, "orbit.worker.v1" in found["gRPC version"].text) == (Level.WRONG, True)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path, "our-authority")


def secured(authority: Authority, client_ca: str | None = None, **options: object) -> EmbeddedRuntime:
    tls = server_context(*map(str, authority.issue("server")), client_ca)
    return EmbeddedRuntime(read(WORKFLOWS), grpc_port=0, tls=tls, **options)


@pytest.mark.promise("W9")
def test_the_chain_of_a_server(authority: Authority, tmp_path: Path) -> None:
    with secured(authority) as runtime:
        found = looked(runtime, ca_cert=str(authority.certificate))
        assert (found["gRPC"].level, found["gRPC TLS"].level) == (Level.OK, Level.NOTE)
        assert "issued by our-authority" in found["gRPC TLS"].text
        assert "expires on" in found["gRPC TLS"].text

        found = looked(runtime)
    assert [(about, finding.level) for about, finding in found.items()] == [
        ("gRPC", Level.WRONG),
        ("gRPC TLS", Level.WRONG),
    ]
    assert "certificate was not accepted" in found["gRPC TLS"].text
    assert "CA_CERT" in found["gRPC TLS"].advice


def test_a_client_certificate_that_is_missing(authority: Authority) -> None:
    with secured(authority, str(authority.certificate)) as runtime:
        found = looked(runtime, ca_cert=str(authority.certificate))
        assert found["gRPC"].level is Level.WRONG

        certificate, key = map(str, authority.issue("client"))
        given = {"ca_cert": str(authority.certificate), "client_cert": certificate, "client_key": key}
        assert looked(runtime, **given)["gRPC"].level is Level.OK


def test_tls_where_none_is_spoken(runtime: EmbeddedRuntime) -> None:
    found = looked(runtime, server=runtime.url.replace("http:", "https:"))
    assert (found["gRPC"].level, found["gRPC TLS"].level) == (Level.WRONG, Level.WRONG)


def test_a_token_that_would_travel_openly(runtime: EmbeddedRuntime) -> None:
    found = looked(runtime, server="http://203.0.113.1:9", worker_token="wrk-SECRET")
    assert (found["gRPC TLS"].level, "https" in found["gRPC TLS"].advice) == (Level.NOTE, True)


@pytest.mark.promise("W8")
def test_what_a_worker_would_end_for_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    found = looked(grpc_target=None)
    assert (list(found), found["gRPC"].text[:11]) == (["gRPC"], "GRPC_TARGET")

    def lacks(settings: OrbitSettings) -> None:
        raise ConfigurationError("TRANSPORT: 'grpc' needs packages that are not installed")

    monkeypatch.setattr(side, "open_transport", lacks)
    assert "not installed" in looked(grpc_target="127.0.0.1:9")["gRPC"].text


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("transport", ["http", "grpc"])
def test_the_grpc_side_is_looked_at_when_it_is_asked_for(
    runtime: EmbeddedRuntime, settings: Any, transport: str
) -> None:
    settings.ORBIT = {"SERVER": runtime.url, "GRPC_TARGET": runtime.grpc_target, "WORKER_TOKEN": "wrk-SECRET"}
    found = {finding.about: finding for finding in examine(Registry(), transport=transport)}

    assert found["runtime"].level is Level.OK
    assert ("gRPC" in found) is (transport == "grpc")

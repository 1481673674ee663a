import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from orbit_django.conf import OrbitSettings
from orbit_django.contracts import read
from orbit_django.embedded.callers import Identity
from orbit_django.embedded.server import EmbeddedRuntime, server_context
from orbit_django.exceptions import ConfigurationError, NoAnswerError, RefusedError
from orbit_django.protocol import Contract, Registration
from orbit_django.transports.grpc import GrpcTransport, open_grpc
from orbit_django.transports.grpc.lines import STREAMS
from tests.contracts.texts import GREET
from tests.processes import wait_for
from tests.transports.certificates import Authority

SECRET = "tok-SECRET-1"
ANNOUNCED = (Contract("greeting.compose", "1.0.0"),)


def reach(runtime: EmbeddedRuntime, **settings: object) -> GrpcTransport:
    given = {"server": runtime.url, "grpc_target": runtime.grpc_target}
    return open_grpc(OrbitSettings(**(given | settings)))


def session(transport: GrpcTransport, worker_id: str = "w") -> str:
    return transport.register(Registration(worker_id, "python", ANNOUNCED, "t/1")).session_id


@pytest.fixture
def runtime():
    with EmbeddedRuntime(read(GREET), grpc_port=0) as runtime:
        yield runtime


@pytest.mark.promise("W9")
def test_what_the_environment_says_of_proxies_and_authorities_is_ignored(runtime, monkeypatch) -> None:
    for name in ("http_proxy", "https_proxy", "grpc_proxy", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.setenv("GRPC_DEFAULT_SSL_ROOTS_FILE_PATH", "/no/such/file")
    transport = reach(runtime)
    assert session(transport)
    transport.close()


@pytest.mark.promise("W2")
def test_closing_ends_an_open_poll_at_once(runtime) -> None:
    transport = reach(runtime)
    opened = session(transport)
    with ThreadPoolExecutor() as threads:
        poll = threads.submit(transport.poll, opened, 60_000)
        wait_for(lambda: runtime._waiters._waiting)
        transport.close()
        with pytest.raises(NoAnswerError):
            poll.result(5)
    assert session(transport), "a later call opens a new line"
    transport.close()


def test_reports_and_heartbeats_do_not_wait_for_however_many_polls(runtime) -> None:
    transport = reach(runtime)
    opened = session(transport)
    count = 2 * STREAMS + 1
    with ThreadPoolExecutor(count) as threads:
        polls = [threads.submit(transport.poll, opened, 60_000) for _ in range(count)]
        wait_for(lambda: len(runtime._waiters._waiting) == count, 20)
        assert transport.heartbeat(opened, timeout_seconds=2) == ()
        assert len(transport._lines._lines["polls"]) == 3
        transport.close()
        assert all(isinstance(poll.exception(5), NoAnswerError) for poll in polls)


def test_nobody_there_is_told_with_what_to_do(runtime) -> None:
    target = runtime.grpc_target
    port = target.rpartition(":")[2]
    runtime.stop()
    transport = open_grpc(OrbitSettings(grpc_target=target, worker_token=SECRET))
    with pytest.raises(NoAnswerError, match=rf"listens at .*GRPC_TARGET.*--grpc-port {port}$") as caught:
        session(transport)
    assert not caught.value.is_maybe_processed
    assert SECRET not in str(caught.value)
    transport.close()


def test_a_runtime_that_comes_back_is_found_soon(runtime) -> None:
    transport = reach(runtime)
    session(transport)
    runtime.go_away()
    with pytest.raises(NoAnswerError):
        session(transport)
    runtime.come_back()

    def is_back() -> bool:
        try:
            return bool(session(transport))
        except NoAnswerError:
            return False

    assert wait_for(is_back, 5)
    transport.close()


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path, "ours")


def secured(authority: Authority, client_ca: str | None = None, **options: object) -> EmbeddedRuntime:
    certificate, key = authority.issue("server")
    tls = server_context(str(certificate), str(key), client_ca)
    return EmbeddedRuntime(read(GREET), grpc_port=0, tls=tls, **options)


@pytest.mark.promise("W9")
def test_only_the_named_authority_is_trusted(authority: Authority, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = Authority(tmp_path / "other", "theirs")
    with secured(authority) as runtime:
        for ca_cert in (None, str(other.certificate)):
            transport = reach(runtime, ca_cert=ca_cert)
            with pytest.raises(NoAnswerError, match="CA_CERT") as caught:
                session(transport)
            assert not caught.value.is_maybe_processed
            transport.close()
        transport = reach(runtime, ca_cert=str(authority.certificate))
        assert session(transport)
        transport.close()


@pytest.mark.promise("W9")
def test_a_renewed_client_certificate_is_shown_without_a_restart_and_open_polls_go_on(
    authority: Authority, tmp_path: Path
) -> None:
    joint = tmp_path / "client.pem"
    identities = [Identity(name, ("*",), client_cert=name) for name in ("first", "second")]

    def renew(name: str) -> None:
        certificate, key = authority.issue(name)
        joint.write_bytes(certificate.read_bytes() + key.read_bytes())

    renew("first")
    with secured(authority, str(authority.certificate), identities=identities) as runtime:
        transport = reach(runtime, ca_cert=str(authority.certificate), client_cert=str(joint))
        opened = session(transport, "first")
        with ThreadPoolExecutor() as threads:
            poll = threads.submit(transport.poll, opened, 1_500)
            wait_for(lambda: runtime._waiters._waiting)
            joint.write_text("half written")
            assert session(transport, "first")
            renew("second")
            assert session(transport, "second")
            with pytest.raises(RefusedError, match="belongs to worker `second`"):
                session(transport, "first")
            assert poll.result(10) is None
        transport.close()


@pytest.mark.promise("W8")
@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"grpc_target": None}, r"^GRPC_TARGET: TRANSPORT is 'grpc', which needs the runtime's gRPC address"),
        ({"proxy": "http://proxy.test:8080"}, "^PROXY: the gRPC binding goes through no proxy"),
        ({"grpc_target": "orbit.test:7234"}, "^GRPC_TARGET: orbit.test:7234 is another machine than that of SERVER"),
        ({"server": "https://127.0.0.1:9", "ca_cert": __file__}, "^CA_CERT"),
        ({"server": "https://127.0.0.1:9", "client_cert": __file__}, "^CLIENT_CERT"),
    ],
)
def test_what_cannot_be_used_is_a_mistake_that_names_its_setting(fields: dict, text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        open_grpc(OrbitSettings(**({"grpc_target": "127.0.0.1:7234"} | fields)))


def test_opening_starts_nothing(runtime) -> None:
    before = threading.active_count()
    transport = reach(runtime, worker_token=SECRET)
    assert (threading.active_count(), transport._lines._lines) == (before, {})
    assert SECRET not in repr(transport)
    transport.close()

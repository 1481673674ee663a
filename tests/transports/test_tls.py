import socket
import threading
from pathlib import Path

import pytest

from orbit_django.exceptions import ConfigurationError
from tests.transports import wire
from tests.transports.calls import SECRET, assert_ends_in_time, connect, failed, post
from tests.transports.certificates import Authority

pytestmark = pytest.mark.usefixtures("way")


def test_https_works_with_the_given_authority(authority: Authority) -> None:
    with wire.serving(tls=authority.server_context()) as server:
        connection = connect(server.url, SECRET, ca_cert=str(authority.certificate))
        post(connection)
        assert post(connection).status == 200
    assert [request.connection for request in server.requests] == [1, 1]


@pytest.mark.promise("W9")
def test_a_server_of_another_authority_gets_no_request(
    authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE"):
        monkeypatch.setenv(name, str(authority.certificate))
    other = Authority(tmp_path, "other")
    with wire.serving(tls=authority.server_context()) as server:
        for trusted in (str(other.certificate), None):
            error = failed(connect(server.url, SECRET, ca_cert=trusted))
            assert not error.is_maybe_processed
            assert "certificate was not accepted" in str(error)
            assert "CA_CERT" in str(error)
    assert server.requests == []


def test_a_certificate_for_another_name_is_not_accepted(authority: Authority) -> None:
    with wire.serving(tls=authority.server_context()) as server:
        connection = connect(f"https://127.0.0.2:{server.port}", ca_cert=str(authority.certificate))
        error = failed(connection)
    assert not error.is_maybe_processed


@pytest.mark.promise("W9")
def test_a_renewed_client_certificate_is_shown_without_a_restart(authority: Authority, tmp_path: Path) -> None:
    joint = tmp_path / "client.pem"

    def renew(name: str) -> None:
        certificate, key = authority.issue(name)
        joint.write_bytes(certificate.read_bytes() + key.read_bytes())

    renew("first")
    with wire.serving(tls=authority.server_context(client_authority=authority)) as server:
        connection = connect(server.url, ca_cert=str(authority.certificate), client_cert=str(joint))
        post(connection)
        joint.write_text("half written")
        post(connection)
        renew("second")
        post(connection)
    names = [certificate["subject"][0][0][1] for certificate in server.peer_certificates]
    assert names == ["first", "second"]


def test_a_client_certificate_with_a_key_of_its_own(authority: Authority) -> None:
    certificate, key = authority.issue("client")
    options = {"ca_cert": authority.certificate, "client_cert": certificate, "client_key": key}
    with wire.serving(tls=authority.server_context(client_authority=authority)) as server:
        assert post(connect(server.url, **{name: str(path) for name, path in options.items()})).status == 200


def test_files_that_are_no_certificates_are_configuration_errors(authority: Authority, tmp_path: Path) -> None:
    nonsense = tmp_path / "nonsense.pem"
    nonsense.write_text("nonsense")
    certificate, _ = authority.issue("client")
    for setting, options in {
        "CA_CERT": {"ca_cert": str(nonsense)},
        "CLIENT_CERT": {"client_cert": str(certificate)},
        "CLIENT_KEY": {"client_cert": str(certificate), "client_key": str(nonsense)},
    }.items():
        with pytest.raises(ConfigurationError, match=setting):
            connect("https://127.0.0.1:1", **options)


def test_a_proxy_may_be_reached_over_tls(authority: Authority) -> None:
    with wire.serving(tls=authority.server_context()) as proxy:
        connection = connect("http://runtime.invalid", SECRET, proxy=proxy.url, ca_cert=str(authority.certificate))
        assert post(connection).status == 200
    assert proxy.requests[0].line == "POST http://runtime.invalid/v1/x HTTP/1.1"


@pytest.mark.promise("W10")
def test_tls_within_tls_ends_with_the_time_of_the_call(authority: Authority) -> None:
    established = b"HTTP/1.1 200 Connection established\r\n\r\n"

    def stall(peer: socket.socket, stop: threading.Event) -> None:
        peer.sendall(established)
        stop.wait(30)

    with wire.serving(stall, tls=authority.server_context()) as proxy:
        connection = connect("https://127.0.0.1", proxy=proxy.url, ca_cert=str(authority.certificate))
        error = assert_ends_in_time(connection, connecting=0.5)
    assert not error.is_maybe_processed

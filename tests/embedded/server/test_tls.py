import hashlib
import json
import ssl
from pathlib import Path

import pytest

from orbit_django.contracts import read
from orbit_django.embedded.callers import Identity
from orbit_django.embedded.server import EmbeddedRuntime, server_context
from orbit_django.exceptions import ConfigurationError
from tests.contracts.texts import GREET
from tests.embedded.waits import waiting
from tests.embedded.wire import JSON, Client
from tests.transports.certificates import Authority

BY_TOKEN = Identity("w-token", ("*",), token_sha256=hashlib.sha256(b"secret").hexdigest())
BY_NAME = Identity("w-1", ("*",), client_cert="worker-1")
BY_ALTERNATIVE = Identity("w-2", ("*",), client_cert="localhost")


@pytest.fixture(scope="module")
def authority(tmp_path_factory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"), "ours")


def runtime(authority: Authority, *identities: Identity) -> EmbeddedRuntime:
    certificate, key = authority.issue("server")
    tls = server_context(str(certificate), str(key), str(authority.certificate))
    return EmbeddedRuntime(read(GREET), tls=tls, token="admin", identities=identities)


def connect(server: EmbeddedRuntime, authority: Authority, name: str | None, token: str | None = None) -> Client:
    context = ssl.create_default_context(cafile=str(authority.certificate))
    if name:
        context.load_cert_chain(*authority.issue(name))
    return Client(server.url, token, context)


def test_certificates_and_tokens_name_identities(authority: Authority) -> None:
    with runtime(authority, BY_TOKEN, BY_NAME) as server:
        by_name = connect(server, authority, "worker-1")
        by_token = connect(server, authority, "worker-1", "secret")
        stranger = connect(server, authority, "stranger")
        nobody = connect(server, authority, None)

        assert server.url.startswith("https://127.0.0.1:")
        assert by_name.register(worker_id="w-1")
        assert by_token.register(worker_id="w-token"), "the token decides"
        refused = stranger.post("/v1/workers/register", {})
        assert (refused.status, refused.json["error"]["code"]) == (403, "FORBIDDEN")
        assert nobody.post("/v1/workers/register", {}).status == 401
        for client in (by_name, by_token, stranger, nobody):
            client.close()


def test_alternative_names_count_too(authority: Authority) -> None:
    with runtime(authority, BY_ALTERNATIVE) as server:
        client = connect(server, authority, "anything")
        assert client.register(worker_id="w-2")
        client.close()


def test_a_poll_whose_tls_client_is_gone_gets_no_task(authority: Authority) -> None:
    with runtime(authority, BY_NAME) as server:
        client = connect(server, authority, "worker-1")
        session = client.register()
        dead = connect(server, authority, "worker-1")
        body = json.dumps({"worker_session_id": session, "wait_ms": 20_000})
        dead.connection.request("POST", "/v1/workers/poll", body, JSON)
        waiting(server)
        dead.close()
        with server.changing() as state:
            state.start("Greet", {"name": "Ada"}, "e-1")

        assert client.poll(session).json["redelivery"] is False
        client.close()


def test_files_that_cannot_be_used(authority: Authority, tmp_path: Path) -> None:
    certificate, key = authority.issue("server")
    (tmp_path / "bad.pem").write_text("no certificate")

    assert server_context(None, None, None) is None
    for files, said in (
        ((None, str(key), None), "--tls-key and --tls-client-ca need --tls-cert"),
        ((str(tmp_path / "bad.pem"), None, None), r"bad\.pem"),
        ((str(certificate), str(key), str(tmp_path / "bad.pem")), r"--tls-client-ca .*bad\.pem"),
    ):
        with pytest.raises(ConfigurationError, match=said):
            server_context(*files)

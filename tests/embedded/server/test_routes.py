import base64
import socket
from urllib.parse import urlsplit

import pytest

from orbit_django.contracts import read
from orbit_django.embedded.callers import Identity
from orbit_django.embedded.server import EmbeddedRuntime
from tests.contracts.texts import GREET
from tests.embedded.wire import JSON, Client


def test_the_shape_of_refusals(client: Client) -> None:
    register = "/v1/workers/register"
    replies = {
        "type": client.send("POST", register, b"{}", {"content-type": "text/plain"}),
        "no type": client.send("POST", register, b"{}", {}),
        "json": client.send("POST", register, b"{"),
        "shape": client.send("POST", register, b"{}"),
        "size": client.send("POST", register, b"x" * 2_001, {}),
        "path": client.get("/v1/nowhere"),
        "method": client.get("/v1/workers/poll"),
        "options": client.send("OPTIONS", "/v1/executions", headers={}),
    }

    assert {name: reply.status for name, reply in replies.items()} == {
        "type": 415,
        "no type": 415,
        "json": 400,
        "shape": 422,
        "size": 413,
        "path": 404,
        "method": 405,
        "options": 405,
    }
    for name in ("type", "json", "shape"):
        assert replies[name].headers["content-type"] == "text/plain; charset=utf-8"
    for name in ("size", "path", "method"):
        assert replies[name].json["error"]["code"]
    assert all(reply.headers["x-orbit-api-version"] == "orbit-api/1" for reply in replies.values())
    assert all(reply.headers["date"].endswith(" GMT") for reply in replies.values()), "to compare clocks with"


def test_a_body_of_exactly_the_limit_is_taken(client: Client) -> None:
    body = b'{"token": "' + b"x" * (2_000 - 13) + b'"}'

    assert client.send("POST", "/v1/tasks/complete", body).json["accepted"] is False
    assert client.send("POST", "/v1/tasks/complete", body + b" ").status == 413


def test_chunked_bodies_are_read(client: Client) -> None:
    chunks = iter([b'{"worker_', b'session_id": "x"}'])
    client.connection.request("POST", "/v1/workers/heartbeat", chunks, JSON, encode_chunked=True)

    assert client.connection.getresponse().status == 404


@pytest.mark.parametrize("content_type", ["application/json; charset=utf-8", "APPLICATION/JSON", "application/x+json"])
def test_content_types_that_are_json(client: Client, content_type: str) -> None:
    headers = {"content-type": content_type}

    assert client.send("POST", "/v1/workers/heartbeat", b'{"worker_session_id": "x"}', headers).status == 404


@pytest.mark.parametrize(
    ("asked", "waited"), [({}, 20_000), ({"wait_ms": 500}, 500), ({"wait_ms": 90_000}, 60_000), ({"wait_ms": 0}, None)]
)
def test_how_long_a_poll_waits(
    runtime: EmbeddedRuntime, client: Client, asked: dict[str, int], waited: int | None
) -> None:
    seen = []
    runtime.wait = lambda look, wait_ms, is_gone: seen.append(wait_ms)
    reply = client.post("/v1/workers/poll", {"worker_session_id": client.register()} | asked)

    assert (reply.status, seen) == (204, [waited] if waited else [])


def test_a_request_that_breaks_off_changes_nothing(runtime: EmbeddedRuntime, client: Client) -> None:
    address = urlsplit(runtime.url)
    with socket.create_connection((address.hostname, address.port)) as connection:
        connection.sendall(
            b"POST /v1/executions HTTP/1.1\r\ncontent-type: application/json\r\ncontent-length: 99\r\n\r\n{}"
        )
        connection.shutdown(socket.SHUT_WR)
        assert connection.recv(100) == b""
    assert client.get("/v1/executions").json == []


@pytest.mark.parametrize("chunk", [b"-5\r\n{}", b"x\r\n{}", b"\r\n"])
def test_what_is_no_chunk_ends_the_connection(runtime: EmbeddedRuntime, chunk: bytes) -> None:
    address = urlsplit(runtime.url)
    with socket.create_connection((address.hostname, address.port), timeout=10) as connection:
        head = b"POST /v1/executions HTTP/1.1\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"
        connection.sendall(head + chunk)
        assert connection.recv(100) == b""


def test_missing_retryable_means_retryable(client: Client) -> None:
    session = client.register()
    client.start()
    token = client.poll(session).json["token"]
    client.post("/v1/tasks/fail", {"token": token, "error_code": "X"})

    assert client.get("/v1/executions/e-1").json["status"] == "RUNNING"


def test_the_administrators_side(client: Client) -> None:
    client.register(sdk="curl")
    assert client.start().json == {"execution_id": "e-1", "created": True}
    assert client.start().json == {"execution_id": "e-1", "created": False}

    assert [view["id"] for view in client.get("/v1/executions").json] == ["e-1"]
    assert client.get("/v1/workers").json[0]["sdk"] == "curl"
    assert [entry["event"] for entry in client.get("/v1/executions/e-1/history").json] == [
        "WorkflowStarted",
        "StepScheduled",
    ]
    assert client.post("/v1/executions/e-1/cancel", {"reason": "x"}).json["status"] == "CANCELLED"
    assert client.get("/v1/executions/e%2D1").json["status"] == "CANCELLED"
    assert client.get("/v1/counters").json["executions_cancelled"] == 1
    page = client.get("/")
    assert (page.status, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert b"e-1" in page.body


def test_credentials_come_before_everything_else() -> None:
    identity = Identity("w-1", ("greeting.*",), "0" * 64)
    with EmbeddedRuntime(read(GREET), token="admin", worker_token="worker", identities=[identity]) as runtime:
        stranger, worker = Client(runtime.url), Client(runtime.url, "worker")
        refused = stranger.send("POST", "/v1/workers/register", b"{", {})
        foreign = worker.send("GET", "/v1/executions", headers={})
        page = stranger.get("/")

        assert (refused.status, refused.json["error"]["code"]) == (401, "UNAUTHENTICATED")
        assert (foreign.status, foreign.json["error"]["code"]) == (403, "FORBIDDEN")
        assert (page.status, page.headers["content-type"]) == (401, "text/html; charset=utf-8")
        for reply in (refused, foreign, page):
            assert reply.headers["x-orbit-api-version"] is None
        assert worker.register()
        stranger.close()
        worker.close()


def test_lists_are_cut_and_picked_from(client: Client) -> None:
    for name in ("a", "b", "c"):
        client.start(name)
    client.post("/v1/executions/b/cancel", {})

    def listed(query: str) -> list[str]:
        return [view["id"] for view in client.get(f"/v1/executions{query}").json]

    assert listed("") == ["c", "b", "a"]
    assert listed("?limit=2") == ["c", "b"]
    assert listed("?limit=1&status=CANCELLED") == ["b"]
    assert client.get("/v1/executions?limit=x").status == 400
    assert b"RUNNING 2" in client.get("/?status=RUNNING").body


def test_a_browser_asks_for_the_token_and_sends_it_to_the_page_alone() -> None:
    with EmbeddedRuntime(read(GREET), token="admin", worker_token="worker") as runtime:
        client = Client(runtime.url)
        asked = client.get("/")
        assert asked.headers["www-authenticate"] == 'Basic realm="ORBIT development runtime", charset="UTF-8"'

        def status(path: str, password: str) -> int:
            credential = base64.b64encode(f"me:{password}".encode()).decode()
            return client.send("GET", path, headers={"authorization": f"Basic {credential}"}).status

        assert status("/", "admin") == 200
        assert status("/", "worker") == status("/", "wrong") == 401
        assert status("/v1/executions", "admin") == 401
        client.close()

import socket
import threading
from pathlib import Path

import pytest

from orbit_django.exceptions import ConfigurationError, PayloadError
from orbit_django.transports import answers as answers_module
from orbit_django.transports import reading as reading_module
from orbit_django.transports.connection import HttpConnection
from tests.transports import wire
from tests.transports.calls import SECRET, WAY, connect, failed, post

pytestmark = pytest.mark.usefixtures("way")


def test_sends_exactly_the_given_text_as_json() -> None:
    with wire.serving(wire.answer('{"a":1}')) as server:
        answer = post(connect(server.url, SECRET), '{"name": "Zoë",  "n": 1.0}')
    (request,) = server.requests
    assert (answer.status, answer.body, answer.headers["Content-Type"]) == (200, b'{"a":1}', "application/json")
    assert request.line == "POST /v1/x HTTP/1.1"
    assert request.body == '{"name": "Zoë",  "n": 1.0}'.encode()
    assert request.headers["content-type"] == "application/json"
    assert request.headers["authorization"] == f"Bearer {SECRET}"
    assert request.headers["user-agent"].startswith("orbit-django/")


def test_a_call_without_body_has_no_content_type() -> None:
    with wire.serving() as server:
        connect(server.url).call("GET", "/v1/workers", None, connect_seconds=2, total_seconds=5)
    assert server.requests[0].line == "GET /v1/workers HTTP/1.1"
    assert "content-type" not in server.requests[0].headers


def test_a_path_in_the_server_address_is_kept() -> None:
    with wire.serving() as server:
        post(connect(f"{server.url}/orbit/"))
    assert server.requests[0].line == "POST /orbit/v1/x HTTP/1.1"


def test_the_credential_is_asked_for_before_each_call() -> None:
    tokens = iter(["one", "two", None])
    with wire.serving() as server:
        connection = HttpConnection(server.url, credential=lambda: next(tokens), **WAY)
        for _ in range(3):
            post(connection)
    assert [request.headers.get("authorization") for request in server.requests] == ["Bearer one", "Bearer two", None]


@pytest.mark.promise("W9")
@pytest.mark.parametrize("token", ["tok\r\nx: y", "tok-é", "tok\x00", " tok-blank ", "tok\n"])
def test_a_credential_that_no_header_can_carry_is_refused_unseen(token: str) -> None:
    with wire.serving() as server, pytest.raises(ConfigurationError) as caught:
        post(connect(server.url, token))
    assert "tok" not in str(caught.value).replace("WORKER_TOKEN", "")
    assert server.requests == []


@pytest.mark.promise("W9")
def test_redact_hides_the_credential_and_other_secrets() -> None:
    connection = connect("http://127.0.0.1:1", SECRET)
    assert connection.redact(f"a {SECRET} b task-7 c", "task-7", "") == "a ******** b ******** c"


@pytest.mark.promise("W9")
@pytest.mark.parametrize("token", [SECRET, None])
def test_a_netrc_file_is_ignored(token: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login mallory password wrong\ndefault login mallory password wrong\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    with wire.serving() as server:
        post(connect(server.url, token))
    assert server.requests[0].headers.get("authorization") == (f"Bearer {SECRET}" if token else None)


@pytest.mark.promise("W9")
def test_proxy_variables_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{wire.closed_port()}")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    with wire.serving() as server:
        assert post(connect(server.url)).status == 200


def test_a_given_proxy_is_used_even_where_no_proxy_says_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "*")
    with wire.serving() as proxy:
        post(connect("http://runtime.invalid:7233", SECRET, proxy=proxy.url))
    assert proxy.requests[0].line == "POST http://runtime.invalid:7233/v1/x HTTP/1.1"


@pytest.mark.promise("W9")
def test_a_proxy_on_the_way_to_https_never_sees_the_credential() -> None:
    with wire.serving(wire.answer("no", "403 Forbidden")) as proxy:
        error = failed(connect("https://runtime.invalid:7233", SECRET, proxy=f"http://who:pass@127.0.0.1:{proxy.port}"))
    assert proxy.requests[0].line.startswith("CONNECT runtime.invalid:7233")
    assert "proxy-authorization" in proxy.requests[0].headers
    assert "authorization" not in proxy.requests[0].headers
    assert not error.is_maybe_processed
    assert "PROXY" in str(error)
    assert "pass" not in str(error)


@pytest.mark.promise("W9")
def test_redirects_are_not_followed() -> None:
    with wire.serving() as elsewhere, wire.serving(wire.answer("", "307 Moved", location=elsewhere.url)) as server:
        answer = post(connect(server.url, SECRET))
    assert (answer.status, len(server.requests), elsewhere.requests) == (307, 1, [])


def test_a_redirect_to_nonsense_is_an_answer_like_any_other() -> None:
    with wire.serving(wire.answer("{}", "302 Found", location="http://[::bad/%zz")) as server:
        assert post(connect(server.url)).status == 302


def test_cookies_are_not_sent_back() -> None:
    with wire.serving(wire.answer(set_cookie="who=me; Path=/")) as server:
        connection = connect(server.url)
        post(connection)
        post(connection)
    assert [request.headers.get("cookie") for request in server.requests] == [None, None]


def test_a_thread_keeps_its_connection_and_shares_it_with_nobody() -> None:
    with wire.serving() as server:
        connection = connect(server.url)
        post(connection)
        post(connection)
        other = threading.Thread(target=post, args=(connection,))
        other.start()
        other.join()
    first, second, third = (request.connection for request in server.requests)
    assert first == second != third


def test_a_connection_closed_while_idle_is_replaced() -> None:
    with wire.serving() as server:
        connection = connect(server.url)
        post(connection)
        server.hang_up()
        assert post(connection).status == 200


def test_a_connection_closed_by_us_is_replaced() -> None:
    with wire.serving() as server:
        connection = connect(server.url)
        post(connection)
        connection.close()
        assert post(connection).status == 200
    assert [request.connection for request in server.requests] == [1, 2]


@pytest.mark.parametrize(
    "reply",
    [
        wire.hang_up,
        b"what is HTTP?\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nshort",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 200 + b"\r\n",
        wire.answer("not gzip", content_encoding="gzip"),
    ],
    ids=["nothing", "garbage", "short", "bad chunk", "many headers", "bad gzip"],
)
def test_a_broken_answer_is_none_and_is_not_asked_for_again(reply: bytes | wire.Say) -> None:
    def once(peer: socket.socket, stop: threading.Event) -> None:
        if callable(reply):
            reply(peer, stop)
        else:
            peer.sendall(reply)

    with wire.serving(once) as server:
        error = failed(connect(server.url, SECRET))
    assert error.is_maybe_processed
    assert len(server.requests) == 1


def test_a_stale_connection_that_breaks_counts_as_maybe_processed() -> None:
    with wire.serving(wire.answer(), wire.hang_up) as server:
        connection = connect(server.url)
        post(connection)
        assert failed(connection).is_maybe_processed


def test_nothing_left_when_nobody_listens() -> None:
    error = failed(connect(f"http://127.0.0.1:{wire.closed_port()}", SECRET))
    assert not error.is_maybe_processed
    assert "nothing listens at http://127.0.0.1:" in str(error)
    assert "manage.py orbit_runtime" in str(error)
    assert "SERVER" in str(error)


@pytest.mark.parametrize("host", ["runtime.invalid", "a" * 70 + ".invalid"])
def test_nothing_left_when_the_name_is_unknown(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(name, *_: object, **__: object) -> None:
        name.encode("idna")
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    error = failed(connect(f"http://{host}", SECRET))
    assert not error.is_maybe_processed
    assert "the name is not known" in str(error)


def test_every_address_of_a_name_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    with wire.serving() as server:
        ports = (wire.closed_port(), server.port)
        found = [(socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", port)) for port in ports]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
        assert post(connect("http://runtime.test")).status == 200


def test_an_error_quotes_nothing_of_what_the_caller_is_handling() -> None:
    connection = connect(f"http://127.0.0.1:{wire.closed_port()}")
    try:
        raise OSError(5, "the caller's own trouble")
    except OSError:
        assert "own trouble" not in str(failed(connection))


def test_an_answer_without_end_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (answers_module, reading_module):
        monkeypatch.setattr(module, "MAX_BODY_BYTES", 100_000)
    with wire.serving(wire.answer(b"a" * 100_001)) as server:
        error = failed(connect(server.url))
    assert error.is_maybe_processed
    assert "larger than 100000 bytes" in str(error)


def test_a_body_that_utf8_cannot_carry_is_refused() -> None:
    with pytest.raises(PayloadError):
        post(connect("http://127.0.0.1:1"), '"\ud800"')


@pytest.mark.parametrize("server", ["127.0.0.1:7233", "ftp://runtime", "http://", "http://me:tok-SECRET-1@runtime"])
def test_a_bad_address_is_a_configuration_error(server: str) -> None:
    with pytest.raises(ConfigurationError, match="SERVER") as caught:
        connect(server)
    assert SECRET not in str(caught.value)

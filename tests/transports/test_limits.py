import pytest

from tests.transports import wire
from tests.transports.calls import assert_ends_in_time, connect, post
from tests.transports.certificates import Authority

pytestmark = pytest.mark.usefixtures("way")

HEAD = b"HTTP/1.1 200 OK\r\n"
SLOW = {
    "silent": wire.silence,
    "status": wire.trickle(b"HTTP/1.1 2"),
    "headers": wire.trickle(HEAD + b"x: "),
    "many headers": wire.trickle(HEAD, b"a: b\r\n", 0.1),
    "body": wire.trickle(HEAD + b"content-length: 100000\r\n\r\n"),
    "chunks": wire.trickle(HEAD + b"transfer-encoding: chunked\r\n\r\n", b"1\r\na\r\n"),
    "until close": wire.trickle(HEAD + b"\r\n"),
    "continue": wire.trickle(b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
}


@pytest.mark.promise("W10")
@pytest.mark.parametrize("reply", SLOW.values(), ids=SLOW.keys())
def test_a_slow_answer_ends_with_the_time_of_the_call(reply: wire.Say) -> None:
    with wire.serving(reply) as server:
        error = assert_ends_in_time(connect(server.url), total=0.5)
    assert error.is_maybe_processed
    assert "within 0.5 s" in str(error)


@pytest.mark.promise("W10")
@pytest.mark.parametrize("name", ["silent", "headers", "body"])
def test_a_slow_answer_over_tls_ends_with_the_time_of_the_call(name: str, authority: Authority) -> None:
    with wire.serving(SLOW[name], tls=authority.server_context()) as server:
        error = assert_ends_in_time(connect(server.url, ca_cert=str(authority.certificate)), total=0.5)
    assert error.is_maybe_processed


@pytest.mark.promise("W10")
def test_a_kept_connection_gets_the_whole_time_of_each_call() -> None:
    with wire.serving(wire.answer(), wire.answer(), wire.silence) as server:
        connection = connect(server.url)
        post(connection, total=0.5)
        server.stop.wait(0.4)
        post(connection, total=0.5)
        assert_ends_in_time(connection, total=0.5)


@pytest.mark.promise("W10")
def test_a_server_that_does_not_read_is_given_up() -> None:
    with wire.listening() as port:
        error = assert_ends_in_time(connect(f"http://127.0.0.1:{port}"), body="x" * 50_000_000, total=0.5)
    assert error.is_maybe_processed


@pytest.mark.promise("W10")
def test_a_handshake_that_nobody_answers_ends_with_the_time_for_connecting(authority: Authority) -> None:
    with wire.listening() as port:
        connection = connect(f"https://127.0.0.1:{port}", ca_cert=str(authority.certificate))
        error = assert_ends_in_time(connection, connecting=0.5)
    assert not error.is_maybe_processed


@pytest.mark.promise("W10")
def test_a_proxy_that_stalls_ends_with_the_time_for_connecting() -> None:
    with wire.serving(wire.trickle(HEAD + b"x: ")) as proxy:
        error = assert_ends_in_time(connect("https://runtime.invalid", proxy=proxy.url), connecting=0.5)
    assert not error.is_maybe_processed

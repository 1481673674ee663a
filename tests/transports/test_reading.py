"""An answer is the same however it comes: in one piece, in many, or byte by byte."""

import sys
from collections.abc import Callable
from http.client import HTTPException
from typing import Any

import pytest

from orbit_django.transports import limits
from orbit_django.transports.reading import receive
from tests.transports import wire
from tests.transports.calls import assert_ends_in_time, connect, post

OK = b"HTTP/1.1 200 OK\r\n"
ANSWERS = {
    "plain": wire.answer('{"a":1}'),
    "empty": OK + b"content-length: 0\r\n\r\n",
    "no content": b"HTTP/1.1 204 No Content\r\nx: y\r\n\r\n",
    "no fields": b"HTTP/1.1 204\r\n\r\n",
    "no reason": b"HTTP/1.1 200\r\ncontent-length: 1\r\n\r\na",
    "refusal": wire.answer('{"error":{}}', "409 Conflict"),
    "closing": wire.answer("{}", connection="Close"),
    "of two, the last": OK + b"Content-Length: 9\r\ncontent-length: 1\r\n\r\na",
    "odd blanks": OK + b"Content-Length:1 \r\nX :  y\t\r\nno colon\r\n\r\na",
    "not latin": OK + b"x: \xe4\xb8\xad\r\ncontent-length: 1\r\n\r\na",
    "lines of another system": b"HTTP/1.1 200 OK\ncontent-length: 1\n\na",
    "both ends of lines": OK + b"x: y\ncontent-length: 1\r\n\r\na",
    "chunks": OK + b"transfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    "chunks and a length": OK + b"content-length: 2\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
    "until close": OK + b"x: y\r\n\r\nabc",
    "a length that is none": OK + b"content-length: +1\r\n\r\nabc",
    "older": b"HTTP/1.0 200 OK\r\ncontent-length: 1\r\n\r\na",
    "older, kept": b"HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ncontent-length: 1\r\n\r\na",
    "continued": b"HTTP/1.1 100 Continue\r\n\r\n" + wire.answer("{}"),
    "large": wire.answer("x" * 100_000),
    "more than was told": wire.answer("{}") + b"more",
    "a body where none is": b"HTTP/1.1 204 No Content\r\ncontent-length: 3\r\n\r\nabc",
    "encoded": wire.answer("{}", content_encoding="br"),
    "short": OK + b"content-length: 100\r\n\r\nshort",
    "bad encoding": wire.answer("not gzip", content_encoding="gzip"),
    "bad chunk": OK + b"transfer-encoding: chunked\r\n\r\nzz\r\n",
    "nothing": b"",
    "garbage": b"what is HTTP?\r\n\r\n",
    "strange status": b"HTTP/1.1 20 OK\r\ncontent-length: 0\r\n\r\n",
    "as many fields as may be": OK + b"a: b\r\n" * 98 + b"content-length: 0\r\n\r\n",
    "too many fields": OK + b"a: b\r\n" * 99 + b"content-length: 0\r\n\r\n",
    "half a head": OK + b"content-le",
}


class Wire:
    """A socket that gives what was sent in pieces of a size, then its end."""

    def __init__(self, sent: bytes, size: int) -> None:
        self._left = sent
        self._size = size

    def take(self, size: int) -> bytes:
        count = min(size, self._size)
        piece, self._left = self._left[:count], self._left[count:]
        return piece

    def recv_into(self, room: memoryview) -> int:
        piece = self.take(len(room))
        room[: len(piece)] = piece
        return len(piece)


def found(sent: bytes, size: int) -> Any:
    try:
        answer, is_open = receive(Wire(sent, size))
    except (HTTPException, OSError) as error:
        return type(error)
    return answer.status, dict(answer.headers), answer.body, is_open


@pytest.mark.parametrize("sent", ANSWERS.values(), ids=ANSWERS.keys())
def test_an_answer_is_the_same_in_one_piece_and_in_many(sent: bytes) -> None:
    whole = found(sent, 1_000_000)
    assert [found(sent, size) for size in (1, 7, 100)] == [whole] * 3


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("plain", (200, b'{"a":1}', True)),
        ("no fields", (204, b"", True)),
        ("closing", (200, b"{}", False)),
        ("of two, the last", (200, b"a", True)),
        ("chunks and a length", (200, b"a", True)),
        ("until close", (200, b"abc", False)),
        ("older", (200, b"a", False)),
        ("continued", (200, b"{}", True)),
        ("more than was told", (200, b"{}", True)),
    ],
)
def test_what_an_answer_says(name: str, expected: tuple[int, bytes, bool]) -> None:
    status, _, body, is_open = found(ANSWERS[name], 1_000_000)
    assert (status, body, is_open) == expected


def calls_of(act: Callable[[], object]) -> list[str]:
    """Return the calls of the system that let another thread have the interpreter."""
    seen: list[str] = []
    names = {"poll", "send", "sendall", "recv", "recv_into", "settimeout", "setblocking", "connect"}

    def look(_: object, event: str, called: Any) -> None:
        if event == "c_call" and called.__name__ in names:
            seen.append(called.__name__)

    sys.setprofile(look)
    try:
        act()
    finally:
        sys.setprofile(None)
    return seen


def test_a_call_on_a_kept_connection_takes_three_calls_of_the_system() -> None:
    with wire.serving() as server:
        connection = connect(server.url, is_lean=True)
        post(connection)
        post(connection)
        assert calls_of(lambda: post(connection)) == ["poll", "send", "recv"]


@pytest.mark.promise("W10")
def test_where_the_system_cannot_keep_a_limit_it_is_kept_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CAN_KEEP_LIMITS", False)
    with wire.serving(wire.answer(), wire.silence) as server:
        connection = connect(server.url, is_lean=True)
        assert post(connection).body == b"{}"
        assert_ends_in_time(connection, total=0.5)


@pytest.mark.promise("W10")
def test_an_answer_that_trickles_leaves_the_next_call_its_own_limit() -> None:
    head, body = wire.answer("{}")[:20], wire.answer("{}")[20:]

    def slowly(peer: Any, stop: Any) -> None:
        peer.sendall(head)
        stop.wait(0.1)
        peer.sendall(body)
        stop.wait(30)

    with wire.serving(slowly) as server:
        connection = connect(server.url, is_lean=True)
        assert post(connection, total=5.0).body == b"{}"
        assert_ends_in_time(connection, total=0.5)

"""An answer as it comes over a kept connection: in one piece nearly always, and then read in one go.

Whatever else may come, an answer in pieces, in chunks, without a length, is left to the standard library, which is
given what was read already. Both read the same answer in the same way.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from http import HTTPStatus
from http.client import HTTPException, HTTPResponse, LineTooLong
from io import BufferedReader, RawIOBase
from typing import IO, Any

from orbit_django.transports.answers import MAX_BODY_BYTES, Answer, whole
from orbit_django.transports.limits import TimedSocket, TimedTlsSocket

CHUNK_BYTES = 65_536
FIRST_BYTES = 16_384  # most answers fit in
MAX_FIELDS, MAX_LINE_BYTES = 100, 65_536
STATUS = re.compile(r"HTTP/1\.1 ([2-9][0-9][0-9])(?: .*)?")
EMPTY = (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED)


class Fields(Mapping[str, str]):
    """The header of an answer, whose names are looked up without regard to case; of two, the last one stays."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._values: dict[str, str] = {}
        for line in lines:
            name, _, value = line.partition(":")
            self._values[name.lower()] = value.strip()

    def __getitem__(self, name: str) -> str:
        return self._values[name.lower()]

    def __contains__(self, name: object) -> bool:
        return str(name).lower() in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def get(self, name: str, default: Any = None) -> Any:
        """Return a value, or the default."""
        return self._values.get(name.lower(), default)

    @property
    def is_closing(self) -> bool:
        """Whether the other side says that it closes the connection."""
        return "close" in self.get("connection", "").lower()

    @property
    def length(self) -> int | None:
        """How long the body is, None where that is not told."""
        told: str = self.get("content-length", "")
        return int(told) if told.isascii() and told.isdigit() else None


def receive(sock: TimedSocket | TimedTlsSocket) -> tuple[Answer, bool]:
    """Read one answer; return it, and whether the connection may be used again."""
    begun = sock.take(FIRST_BYTES)
    if found := _at_once(begun):
        return found
    with _Response(_Begun(begun, sock), method="POST") as response:  # type: ignore[arg-type]  # all that it asks for
        response.begin()
        body = _decoded(whole(_pieces(response)), response.fields.get("content-encoding", ""))
        return Answer(response.status, response.fields, body), not response.will_close


def _at_once(begun: bytes) -> tuple[Answer, bool] | None:
    """Return an answer that is whole and plain, and whether the connection stays open; None for any other."""
    head, end, body = begun.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    line = STATUS.fullmatch(first)
    if not end or line is None or len(lines) >= MAX_FIELDS or head.count(b"\n") != len(lines):
        return None
    fields = Fields(lines)
    if "transfer-encoding" in fields or "content-encoding" in fields:
        return None
    status = int(line[1])
    if len(body) != (0 if status in EMPTY else fields.length):
        return None
    return Answer(status, fields, body), not fields.is_closing


class _Begun(RawIOBase):
    """A connection whose answer was read in part; it stands for the socket where a stream of the whole is wanted."""

    def __init__(self, begun: bytes, sock: TimedSocket | TimedTlsSocket) -> None:
        super().__init__()
        self._begun = memoryview(begun)
        self._is_over = not begun
        self._socket = sock

    def makefile(self, mode: str) -> BufferedReader:
        """Return the stream."""
        return BufferedReader(self)

    def readable(self) -> bool:
        """Return whether it can be read, which is all that it is for."""
        return True

    def readinto(self, room: Any) -> int:
        """Give what was read before, and then what comes."""
        if not self._begun:
            return 0 if self._is_over else int(self._socket.recv_into(room))
        count = min(len(room), len(self._begun))
        room[:count] = self._begun[:count]
        self._begun = self._begun[count:]
        return count


class _Response(HTTPResponse):
    """A response whose header is read without the parser of mails, which takes longer than all the rest."""

    def begin(self) -> None:
        """Read the status and the header of the final answer."""
        while True:
            version, self.status, self.reason = self._read_status()  # type: ignore[attr-defined]  # not in its stubs
            self.fields = _fields(self.fp)
            if self.status >= HTTPStatus.OK:
                break
        self.version = 11 if version != "HTTP/1.0" else 10
        self.chunked = "chunked" in self.fields.get("transfer-encoding", "").lower()
        self.chunk_left = None
        self.length = self._told_length()
        is_kept = self.version == 11 or "keep-alive" in self.fields.get("connection", "").lower()
        self.will_close = self.fields.is_closing or not is_kept or (self.length is None and not self.chunked)

    def _told_length(self) -> int | None:
        if self.status in EMPTY:
            return 0
        return None if self.chunked else self.fields.length


def _fields(stream: IO[bytes]) -> Fields:
    """Read the lines of a header; raise HTTPException when they are none, or too many."""
    lines: list[str] = []
    for _ in range(MAX_FIELDS):
        line = stream.readline(MAX_LINE_BYTES + 1)
        if len(line) > MAX_LINE_BYTES:
            raise LineTooLong("header line")
        if line in (b"\r\n", b"\n", b""):
            return Fields(lines)
        lines.append(line.decode("latin-1").rstrip("\r\n"))
    raise HTTPException(f"more than {MAX_FIELDS} header lines")


def _pieces(response: HTTPResponse) -> Iterable[bytes]:
    """Return the body: in one piece where its length was told, since only then the end of it is known to be missing."""
    if response.length is not None and response.length <= MAX_BODY_BYTES:
        return (response.read(),)
    return iter(partial(response.read, CHUNK_BYTES), b"")


def _decoded(body: bytes, encoding: str) -> bytes:
    """Undo what a server did although it was asked not to."""
    if encoding.lower() not in ("gzip", "x-gzip", "deflate"):
        return body
    try:
        plain = zlib.decompressobj(zlib.MAX_WBITS | 32).decompress(body, MAX_BODY_BYTES + 1)
    except zlib.error as error:
        raise HTTPException("a body that cannot be decoded") from error
    return whole((plain,))

"""A proxy between worker and database that counts: each exchange on the wire is one round trip, whoever caused it.

It reads the messages of PostgreSQL and of MariaDB; nothing is changed on the way, and no setting of a server is
needed. Statements that a driver has prepared are known by their names.
"""

from __future__ import annotations

import asyncio
import re
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import urlsplit

CHUNK = 1 << 16
TARGET = re.compile(r"\b(INSERT(?: IGNORE)? INTO|UPDATE|DELETE FROM|FROM)\s+[\"`]?(\w+)", re.IGNORECASE)
WRITES = ("INSERT", "UPDATE", "DELETE")
KEPT = re.compile(r"EXECUTE (\w+)\(.*", re.DOTALL)
OPENING = ("BEGIN", "START TRANSACTION", "SET AUTOCOMMIT=0", "SET AUTOCOMMIT = 0")
CLOSING = ("COMMIT", "ROLLBACK", "SET AUTOCOMMIT=1", "SET AUTOCOMMIT = 1")
QUERY, QUIT = 3, 1  # commands of MariaDB


@dataclass
class Said:
    """What was said to a database: how often each statement, and how many writes were committed."""

    statements: Counter[str] = field(default_factory=Counter)
    commits: int = 0


class Proxy:
    """Listens on a port of its own and passes everything on to the server of a URL."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._target = (parts.hostname or "127.0.0.1", parts.port or (5432 if "postgres" in parts.scheme else 3306))
        self._reader = _Postgres if "postgres" in parts.scheme else _MariaDb
        self._lock = threading.Lock()
        self._said = Said()
        self._loop = asyncio.new_event_loop()
        self._is_up = threading.Event()
        self._port = 0
        threading.Thread(target=self._run, daemon=True).start()
        self._is_up.wait(10)
        self.url = parts._replace(netloc=f"{parts.username or ''}@127.0.0.1:{self._port}").geturl()

    def take(self) -> Said:
        """Return what was said since this was last asked; each statement was one round trip."""
        with self._lock:
            taken, self._said = self._said, Said()
        return taken

    def close(self) -> None:
        """Stop listening."""
        self._loop.call_soon_threadsafe(self._loop.stop)

    def _count(self, text: str, *, is_commit: bool) -> None:
        with self._lock:
            self._said.statements[text] += 1
            self._said.commits += is_commit

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._serve, "127.0.0.1", 0))
        self._port = server.sockets[0].getsockname()[1]
        self._is_up.set()
        self._loop.run_forever()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        up_reader, up_writer = await asyncio.open_connection(*self._target)
        said = self._reader(_Talk(self._count).say)
        await asyncio.gather(_pass_on(reader, up_writer, said.feed), _pass_on(up_reader, writer, lambda data: None))


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, look: Callable[[bytes], None]) -> None:
    try:
        while data := await reader.read(CHUNK):
            look(data)
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        return
    finally:
        writer.close()


class _Talk:
    """One connection: whether a transaction is open on it decides what a write means."""

    def __init__(self, count: Callable[..., None]) -> None:
        self._count = count
        self._is_open = False

    def say(self, text: str) -> None:
        """Count a statement."""
        words = text.upper().strip("; ")
        opens, closes = words.startswith(OPENING), words.endswith("COMMIT") or words.startswith(CLOSING)
        short = _short(text)
        is_write = short.removeprefix("WITH … ").startswith(WRITES)
        is_alone = is_write and not self._is_open and not opens
        self._count(_joined(short, opens, closes), is_commit=is_alone or words.endswith("COMMIT"))
        self._is_open = (self._is_open or opens) and not closes


class _Postgres:
    """What a client of PostgreSQL says: Query, or Parse, Bind and the like up to Sync."""

    def __init__(self, count: Callable[[str], None]) -> None:
        self._count = count
        self._rest = b""
        self._has_begun = False
        self._prepared: dict[bytes, str] = {}
        self._text = ""

    def feed(self, data: bytes) -> None:
        """Take some bytes and count the exchanges that they complete."""
        self._rest += data
        while True:
            head = 1 if self._has_begun else 0  # the first message has no letter
            if len(self._rest) < head + 4:
                return
            size = head + int.from_bytes(self._rest[head : head + 4], "big")
            if len(self._rest) < size:
                return
            message, self._rest = self._rest[:size], self._rest[size:]
            if self._has_begun:
                self._read(message[:1], message[5:])
            self._has_begun = True

    def _read(self, letter: bytes, body: bytes) -> None:
        if letter == b"Q":
            self._count(KEPT.sub(self._said_in_full, body[:-1].decode(errors="replace")))
        elif letter == b"P":
            name, _, rest = body.partition(b"\0")
            self._text = rest.partition(b"\0")[0].decode(errors="replace")
            self._prepared[name] = self._text
        elif letter == b"B":
            name = body.split(b"\0", 2)[1]
            self._text = self._prepared.get(name, self._text)
        elif letter == b"S":
            self._count(self._text)

    def _said_in_full(self, found: re.Match[str]) -> str:
        """Return what a kept statement says that is run by its name."""
        return self._prepared.get(found[1].encode(), found[0])


class _MariaDb:
    """What a client of MariaDB says: packets that begin a command have the number 0."""

    def __init__(self, count: Callable[[str], None]) -> None:
        self._count = count
        self._rest = b""

    def feed(self, data: bytes) -> None:
        """Take some bytes and count the exchanges that they begin."""
        self._rest += data
        while len(self._rest) >= 5:
            size = 4 + int.from_bytes(self._rest[:3], "little")
            if len(self._rest) < size:
                return
            packet, self._rest = self._rest[:size], self._rest[size:]
            command = packet[4]
            if packet[3] == 0 and command != QUIT:
                text = packet[5:].decode(errors="replace") if command == QUERY else f"command {command}"
                self._count(text)


def _joined(short: str, opens: bool, closes: bool) -> str:
    """Show that a statement travelled together with the beginning or the end of its transaction."""
    is_only = short.startswith((*OPENING, *CLOSING))
    return short if is_only else f"{'BEGIN; ' * opens}{short}{'; COMMIT' * closes}"


def _short(text: str) -> str:
    """Return a statement without what changes from one task to the next."""
    found = TARGET.search(text)
    verb = text.lstrip("( ").split(None, 1)[0].upper() if text.strip() else ""
    if found is None:
        return " ".join(text.split())[:40].upper()
    word = "SELECT" if verb == "SELECT" else found[1].upper()
    return f"{'WITH … ' if verb == 'WITH' else ''}{word.removesuffix(' INTO').removesuffix(' FROM')} {found[2]}"

"""A runtime that costs next to nothing: the worker protocol over HTTP from memory, in a process of its own.

One thread around epoll, answers prepared beforehand, nothing validated. It hands out tasks as fast as they are asked
for, or at a given pace, and counts what comes back. It is told what to do at `/bench/…`, over the same port.
"""

from __future__ import annotations

import json
import re
import select
import socket
import sys
import time
from collections import deque
from typing import Any

from benchmarks.plan import ANSWERS, Plan, answer

TOKEN = re.compile(rb'"token":\s*"([^"]+)"')
SESSION = re.compile(rb'"worker_session_id":\s*"([^"]+)"')
WAIT = re.compile(rb'"wait_ms":\s*(\d+)')
LENGTH = re.compile(rb"\r\ncontent-length:\s*(\d+)", re.IGNORECASE)


class Connection:
    """One client: what it has sent so far, and until when its poll waits."""

    __slots__ = ("out", "received", "sock", "waits_until")

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.received = b""
        self.out = b""
        self.waits_until = 0.0


class Runtime:
    """The loop around epoll."""

    def __init__(self, port: int) -> None:
        self.plan = Plan(limit=0)
        self._sessions: set[bytes] = set()
        self._count = 0
        self._waiting: deque[Connection] = deque()
        self._connections: dict[int, Connection] = {}
        self._away_until = 0.0
        self._epoll = select.epoll()
        self._listener = self._listen(port)
        self.port = self._listener.getsockname()[1]
        self._is_ended = False

    def run(self) -> None:
        """Serve until told to end."""
        while not self._is_ended:
            now = time.monotonic()
            for number, event in self._epoll.poll(self._next_wait(now)):
                if number == self._listener.fileno():
                    self._accept()
                elif connection := self._connections.get(number):
                    self._talk(connection, event)
            self._serve_waiting()

    def _listen(self, port: int) -> socket.socket:
        listener = socket.create_server(("127.0.0.1", port), backlog=256)
        listener.setblocking(False)
        self._epoll.register(listener, select.EPOLLIN)
        return listener

    def _accept(self) -> None:
        sock, _ = self._listener.accept()
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._connections[sock.fileno()] = Connection(sock)
        self._epoll.register(sock, select.EPOLLIN)

    def _close(self, connection: Connection) -> None:
        self._connections.pop(connection.sock.fileno(), None)
        connection.waits_until = 0.0
        connection.sock.close()

    def _talk(self, connection: Connection, event: int) -> None:
        if event & select.EPOLLOUT:
            self._send(connection, b"")
            return
        try:
            found = connection.sock.recv(1 << 20)
        except OSError:
            found = b""
        if not found:
            self._close(connection)
            return
        connection.received = connection.received + found if connection.received else found
        self._read(connection)

    def _read(self, connection: Connection) -> None:
        """Answer one request as soon as it is whole; clients do not send the next one before."""
        end = connection.received.find(b"\r\n\r\n")
        if end < 0:
            return
        length = LENGTH.search(connection.received, 0, end)
        if len(connection.received) < end + 4 + (int(length[1]) if length else 0):
            return
        request, connection.received = connection.received, b""
        path = request[: request.index(b"\r\n")].split(b" ")[1]
        self._answer(connection, path, request[end + 4 :])

    def _answer(self, connection: Connection, path: bytes, body: bytes) -> None:
        name = path.rpartition(b"/")[2].decode()
        if path.startswith(b"/bench/"):
            self._send(connection, answer(json.dumps(self._told(name, body)).encode()))
            return
        self.plan.calls[name] = self.plan.calls.get(name, 0) + 1
        if name == "poll":
            self._poll(connection, body)
        elif name in ("complete", "fail"):
            self._send(connection, self.plan.report(name, _first(TOKEN, body)))
        elif name == "register":
            self._send(connection, self._register())
        elif name == "heartbeat":
            self._send(connection, ANSWERS["beat" if self._knows(body) else "elsewhere"])
        else:
            self._sessions.discard(_first(SESSION, body))
            self._send(connection, ANSWERS["accepted"])

    def _poll(self, connection: Connection, body: bytes) -> None:
        self.plan.polled_at = self.plan.polled_at or time.monotonic()
        if "poll" in self.plan.refuse:
            self._send(connection, ANSWERS["away"])
        elif not self._knows(body):
            self._send(connection, ANSWERS["elsewhere"])
        elif self.plan.is_due(now := time.monotonic()):
            self._send(connection, self.plan.assignment(now))
        else:
            connection.waits_until = now + int(_first(WAIT, body) or 20_000) / 1000
            self._waiting.append(connection)

    def _register(self) -> bytes:
        self._count += 1
        session = b"s%d" % self._count
        self._sessions.add(session)
        return answer(
            b'{"accepted":true,"worker_session_id":"%b","heartbeat_interval_ms":5000,"session_timeout_ms":30000,'
            b'"warnings":[]}' % session
        )

    def _knows(self, body: bytes) -> bool:
        return _first(SESSION, body) in self._sessions

    def _serve_waiting(self) -> None:
        now = time.monotonic()
        while self._waiting and self.plan.is_due(now):
            connection = self._waiting.popleft()
            if connection.waits_until:
                connection.waits_until = 0.0
                self._send(connection, self.plan.assignment(now))
        for connection in [held for held in self._waiting if held.waits_until <= now]:
            self._waiting.remove(connection)
            if connection.waits_until:
                connection.waits_until = 0.0
                self._send(connection, ANSWERS["empty"])
        if self._away_until and now >= self._away_until:
            self._away_until = 0.0
            self._listener = self._listen(self.port)

    def _next_wait(self, now: float) -> float:
        moments = [now + 0.25, self._away_until or now + 1]
        if self._waiting:
            moments.append(self._waiting[0].waits_until)
            if self.plan.pace is not None and self.plan.limit != self.plan.given:
                moments.append(self.plan.next_at)
        return max(min(moments) - now, 0.0)

    def _send(self, connection: Connection, data: bytes) -> None:
        data = connection.out + data
        try:
            sent = connection.sock.send(data)
        except BlockingIOError:
            sent = 0
        except OSError:
            self._close(connection)
            return
        left = data[sent:]
        if bool(left) != bool(connection.out):
            self._epoll.modify(connection.sock, select.EPOLLOUT if left else select.EPOLLIN)
        connection.out = left

    def _told(self, name: str, body: bytes) -> dict[str, Any]:
        """Do what the harness asks: begin anew, tell, change what is refused, go away, end."""
        plan = self.plan
        asked = json.loads(body or b"{}")
        if name == "begin":
            self.plan = plan = Plan(**asked)
        elif name == "refuse":
            plan.refuse = tuple(asked["what"])
        elif name == "away":
            self._go_away(asked["seconds"])
        elif name == "end":
            self._is_ended = True
        names = ("given", "completed", "failed", "duplicates", "refused", "calls", "polled_at", "reported_at")
        told = {key: getattr(plan, key) for key in names}
        waiting = sum(1 for held in self._waiting if held.waits_until)
        told |= {"at": time.monotonic(), "waiting": waiting, "sessions": len(self._sessions)}
        return told | ({"latencies": plan.latencies} if name == "latencies" else {})

    def _go_away(self, seconds: float) -> None:
        """Listen to nobody, hang up on everybody, and forget the sessions, as a restart does."""
        self._away_until = time.monotonic() + seconds
        self._listener.close()
        self._sessions.clear()
        self._waiting.clear()
        for connection in list(self._connections.values()):
            self._close(connection)


def _first(pattern: re.Pattern[bytes], body: bytes) -> bytes:
    found = pattern.search(body, 0, 4096)
    return found[1] if found else b""


if __name__ == "__main__":
    runtime = Runtime(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    print(runtime.port, flush=True)
    runtime.run()

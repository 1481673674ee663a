"""The harness's side of the lean runtime: its process, what it is told, and how fast it can be."""

from __future__ import annotations

import http.client
import json
import os
import select
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RUNTIMES = {"http": "benchmarks.runtime", "grpc": "benchmarks.grpc_runtime"}  # by transport; the latter serves both
GRPC_TARGET = "BENCH_GRPC_TARGET"  # what the measured processes are told by
CLIENTS = 8  # of the measurement of its ceiling


class RuntimeProcess:
    """A lean runtime in a process of its own."""

    def __init__(self, process: subprocess.Popen[str], port: int) -> None:
        self.process = process
        self.port = port
        self.url = f"http://127.0.0.1:{port}"

    def tell(self, what: str, /, **options: Any) -> dict[str, Any]:
        """Tell the runtime something; return its counts."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request("POST", f"/bench/{what}", json.dumps(options))
            told: dict[str, Any] = json.loads(connection.getresponse().read())
        finally:
            connection.close()
        return told

    def state(self) -> dict[str, Any]:
        """Return the counts since the runtime was told to begin."""
        return self.tell("state")

    def go_away(self, seconds: float) -> None:
        """Have it hang up on everybody, this call included, and come back later without its sessions."""
        try:
            self.tell("away", seconds=seconds)
        except (OSError, http.client.HTTPException):
            return


@contextmanager
def running(transport: str) -> Iterator[RuntimeProcess]:
    """Start the lean runtime of a transport and end it afterwards."""
    if transport not in RUNTIMES:
        raise SystemExit(f"there is no lean runtime for {transport!r}; known: {', '.join(RUNTIMES)}")
    command = [sys.executable, "-m", RUNTIMES[transport]]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        if transport == "grpc":
            os.environ[GRPC_TARGET] = f"127.0.0.1:{int(process.stdout.readline())}"
        yield RuntimeProcess(process, port)
    finally:
        process.terminate()
        process.wait(10)


def ceiling(runtime: RuntimeProcess, seconds: float = 0.8) -> float:
    """Return how many tasks a second the runtime hands out and takes back, asked by bare sockets."""
    runtime.tell("begin")
    clients = [socket.create_connection(("127.0.0.1", runtime.port)) for _ in range(CLIENTS)]
    session = _exchange(clients[0], _request("workers/register", b"{}"), b'"worker_session_id":"')
    poll = _request("workers/poll", b'{"worker_session_id":"%b","wait_ms":1000}' % session)
    before = runtime.state()
    _drive(clients, poll, time.monotonic() + seconds)
    after = runtime.state()
    for client in clients:
        client.close()
    return float((after["completed"] - before["completed"]) / (after["at"] - before["at"]))


def _drive(clients: list[socket.socket], poll: bytes, end: float) -> None:
    """Keep each client either waiting for a task or waiting for the answer to its report."""
    epoll = select.epoll()
    by_number = {client.fileno(): client for client in clients}
    for client in clients:
        epoll.register(client, select.EPOLLIN)
        client.sendall(poll)
    while time.monotonic() < end:
        for number, _ in epoll.poll(0.1):
            client = by_number[number]
            found = client.recv(65_536)
            at = found.find(b'"token":"')
            if at < 0:
                client.sendall(poll)
            else:
                token = found[at + 9 : found.index(b'"', at + 9)]
                client.sendall(_request("tasks/complete", b'{"token":"%b","output":{"row":1}}' % token))
    epoll.close()


def _request(path: str, body: bytes) -> bytes:
    return b"POST /v1/%b HTTP/1.1\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (
        path.encode(),
        len(body),
        body,
    )


def _exchange(client: socket.socket, request: bytes, before: bytes) -> bytes:
    client.sendall(request)
    found = client.recv(65_536)
    at = found.index(before) + len(before)
    return found[at : found.index(b'"', at)]

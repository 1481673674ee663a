"""The floor: what a worker for this one task costs when it is written by hand for speed.

One kept `http.client` connection for each thread, the business row by the same handler, record and report in one
statement, and one statement every 50 ms for all reports that were answered. It keeps no promise but the transaction:
no retries, heartbeats, cancellation, conflicts, checks of the connection, or log.
"""

from __future__ import annotations

import http.client
import json
import threading
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any
from urllib.parse import urlsplit

import django
from django.db import connection, transaction

from benchmarks.byhand.bare import REGISTER, WAIT_MS

django.setup()

from benchmarks.work.handler import work  # noqa: E402  (needs the app registry)

SETTLE_SECONDS = 0.05
HEADERS = {"content-type": "application/json"}
IN_ONE = (
    "WITH receipt AS (INSERT INTO work_receipt (key, output, created_at) VALUES (%s, %s, now()) RETURNING id) "
    "INSERT INTO work_report (receipt_id, token, due_at) SELECT id, %s, now() FROM receipt RETURNING id"
)
RECEIPT = "INSERT INTO work_receipt (`key`, output, created_at) VALUES (%s, %s, CURRENT_TIMESTAMP) RETURNING id"
REPORT = "INSERT INTO work_report (receipt_id, token, due_at) VALUES (%s, %s, CURRENT_TIMESTAMP) RETURNING id"
SETTLE = "UPDATE work_report SET settled_at = CURRENT_TIMESTAMP, due_at = NULL WHERE id "


class Worker:
    """Polls, runs the handler in a transaction with its bookkeeping, reports, settles in groups."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._answered: deque[int] = deque()
        self._stop = threading.Event()
        # SQLite has one writer: threads queue here, since its own waiting is not fair.
        is_single = connection.vendor == "sqlite"
        self._turn: AbstractContextManager[Any] = threading.Lock() if is_single else nullcontext()
        self._settler = threading.Thread(target=self._settle_often)
        self._settler.start()

    def loop(self) -> Callable[[], None]:
        """Return the step of one thread."""
        client = http.client.HTTPConnection(urlsplit(self._url).netloc, timeout=30)
        session = _post(client, "/v1/workers/register", json.dumps(REGISTER).encode())["worker_session_id"]
        poll = json.dumps({"worker_session_id": session, "wait_ms": WAIT_MS}).encode()

        def step() -> None:
            assignment = _post(client, "/v1/workers/poll", poll)
            if not assignment:
                return
            token = assignment["token"]
            with self._turn, transaction.atomic():
                output = json.dumps(work(assignment["input"]))
                report = _keep(assignment["idempotency_key"], output, token)
            _post(client, "/v1/tasks/complete", f'{{"token":"{token}","output":{output}}}'.encode())
            self._answered.append(report)

        return step

    def close(self) -> None:
        """Settle what is left."""
        self._stop.set()
        self._settler.join()

    def _settle_often(self) -> None:
        while not self._stop.wait(SETTLE_SECONDS):
            self._settle()
        self._settle()

    def _settle(self) -> None:
        if not self._answered:
            return
        settled = [self._answered.popleft() for _ in range(len(self._answered))]
        with self._turn, connection.cursor() as cursor:
            if connection.vendor == "postgresql":
                cursor.execute(f"{SETTLE} = ANY(%s)", [settled])
            else:
                cursor.execute(f"{SETTLE} IN ({', '.join(['%s'] * len(settled))})", settled)


def _keep(key: str, output: str, token: str) -> int:
    """Write record and report, in as few statements as the database lets us."""
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute(IN_ONE, [key, output, token])
        else:
            cursor.execute(RECEIPT, [key, output])
            cursor.execute(REPORT, [cursor.fetchone()[0], token])
        return int(cursor.fetchone()[0])


def _post(client: http.client.HTTPConnection, path: str, body: bytes) -> Any:
    client.request("POST", path, body, HEADERS)
    response = client.getresponse()
    content = response.read()
    assert response.status in (200, 204), response.status
    return json.loads(content) if content else None

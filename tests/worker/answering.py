"""A runtime that says whatever a test wants, call by call, and fronts that do not even listen."""

import os
import socket
import threading
import time
from contextlib import suppress

from django.utils import timezone

from orbit_django.embedded.answers import JSON, Answer
from orbit_django.models import OutboxMessage
from orbit_django.payloads import digest
from tests.processes import ListeningFaults

MESSAGES = 60
IS_LONG = os.environ.get("ORBIT_TEST_LONG") == "1"
UNKNOWN_SESSION = b'{"error": {"code": "UNKNOWN_SESSION", "message": "unknown or expired worker session"}}'


def said(status: int, body: bytes = b"", content_type: str = JSON, **headers: str) -> Answer:
    return Answer(status, body, content_type, headers=tuple(headers.items()))


def refusal(status: int, code: str) -> Answer:
    return said(status, f'{{"error": {{"code": "{code}", "message": "no"}}}}'.encode())


def say(faults: ListeningFaults, answers: dict[str, Answer]) -> None:
    """Have calls, or every call with ``*``, answered so until the faults are cleared."""
    for call, answer in answers.items():
        faults.add("answer", call, value=answer, times=None)


def owe(server: str, worker_id: str) -> None:
    """Write messages that are due at a runtime."""
    now = timezone.now()
    tokens = [f"{server}-token-{number}" for number in range(MESSAGES)]
    OutboxMessage.objects.bulk_create(
        OutboxMessage(
            token=token, token_hash=digest(token), kind="complete", body=f'{{"token":"{token}","output":{{}}}}',
            status="pending", due_at=1, sender="", created_at=now, server=server, worker_id=worker_id, attempt=1,
        )
        for token in tokens
    )  # fmt: skip


class HangUp:
    """A front that takes every connection and closes it without a word; counts them."""

    def __init__(self, port: int) -> None:
        self.times: list[float] = []
        self._listener = socket.create_server(("127.0.0.1", port), backlog=64)
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join(5)
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                self._listener.accept()[0].close()
                self.times.append(time.monotonic())

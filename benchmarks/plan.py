"""What the lean runtime hands out and what it counts: answers that are prepared, and the plan of one measurement."""

from __future__ import annotations

import json
import time
from uuid import uuid4

ACCEPTED = b'{"accepted":true}'
BEAT = b'{"accepted":true,"cancel":[]}'
ELSEWHERE = b'{"error":{"code":"UNKNOWN_SESSION","message":"unknown worker session"}}'
AWAY = b'{"error":{"code":"UNAVAILABLE","message":"away"}}'
DUPLICATE = b'{"accepted":false,"reason":"duplicate result; step already resolved"}'
KEPT_LATENCIES = 100_000
REASONS = {200: b"OK", 204: b"No Content", 404: b"Not Found", 503: b"Service Unavailable"}


def answer(body: bytes, status: int = 200) -> bytes:
    """Return a whole HTTP answer."""
    head = b"HTTP/1.1 %d %s\r\nx-orbit-api-version: orbit-api/1\r\n" % (status, REASONS[status])
    if status == 204:
        return head + b"\r\n"
    return head + b"content-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body) + body


ANSWERS = {
    "accepted": answer(ACCEPTED), "beat": answer(BEAT), "empty": answer(b"", 204), "elsewhere": answer(ELSEWHERE, 404),
    "away": answer(AWAY, 503), "duplicate": answer(DUPLICATE),
}  # fmt: skip


class Plan:
    """What the runtime is to do, and what it has counted since it was told."""

    def __init__(
        self,
        *,
        pace: float | None = None,
        payload: int = 100,
        limit: int | None = None,
        delay_ms: float = 0.0,
        refuse: tuple[str, ...] = (),
    ) -> None:
        self.pace = pace  # seconds between two tasks; None: as fast as they are asked for
        self.limit = limit  # how many tasks there are at all; None: no end of them
        self.refuse = tuple(refuse)  # "poll" and "report": what is answered 503
        value = {"number": 1, "delay_ms": delay_ms, "text": "x" * max(payload - 50, 0)}
        self.input = json.dumps(value).encode()
        self.prefix = b"s%x-" % (time.time_ns() & 0xFFFFFFFF)
        self.next_at = time.monotonic()
        self.given = self.completed = self.failed = self.duplicates = self.polls = self.refused = 0
        self.calls: dict[str, int] = {}
        self.open: dict[bytes, float] = {}
        self.latencies: list[float] = []
        self.polled_at = 0.0  # when the first poll came
        self.reported_at = 0.0  # when the latest report was taken

    def is_due(self, now: float) -> bool:
        """Return whether a task is to be handed out now; if so, the next one is due a pace later."""
        if self.limit is not None and self.given >= self.limit:
            return False
        if self.pace is None:
            return True
        if now < self.next_at:
            return False
        self.next_at = now + self.pace
        return True

    def assignment(self, now: float) -> bytes:
        """Return the answer that hands out the next task."""
        self.given += 1
        step = b"%s%d" % (self.prefix, self.given)
        token = str(uuid4()).encode()  # as runtimes do: opaque, and no part of anything that is logged
        self.open[token] = now
        return answer(
            b'{"token":"%b","execution_id":"e-%b","workflow":"Bench","workflow_version":"1","step_id":"work",'
            b'"task_name":"bench.work","contract_version":"1.0.0","input":%b,"idempotency_key":"e-%b/work",'
            b'"attempt":1,"redelivery":false}' % (token, step, self.input, step)
        )

    def report(self, name: str, token: bytes) -> bytes:
        """Count a report and return the answer to it."""
        if "report" in self.refuse:
            self.refused += 1
            return ANSWERS["away"]
        began = self.open.pop(token, None)
        if began is None:
            self.duplicates += 1
            return ANSWERS["duplicate"]
        self.completed += name == "complete"
        self.failed += name == "fail"
        self.reported_at = time.monotonic()
        if len(self.latencies) < KEPT_LATENCIES:
            self.latencies.append(self.reported_at - began)
        return ANSWERS["accepted"]

"""What stands between a worker and its runtime: it writes every call down, and answers as a check tells it to.

Nothing here knows of a binding. A reply is a function of the exchange: it may have the runtime answer, or answer
itself, or let the connection die by returning None.
"""

import json
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Protocol

from tests.processes import wait_for

FIRST = "t-1"
USUAL = {
    "execution_id": "e-1",
    "workflow": "Order",
    "workflow_version": "1.2.0",
    "step_id": "pay",
    "task_name": "shop.pay",
    "contract_version": "1.0.0",
    "input": {"amount": 5},
    "attempt": 1,
    "redelivery": False,
}


@dataclass(frozen=True)
class Answer:
    """What goes back to the worker; the status in the words of HTTP, whatever the binding."""

    status: int
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def fields(self) -> dict[str, Any]:
        return dict(json.loads(self.body))


@dataclass(eq=False)
class Call:
    """One call that arrived; times are monotonic seconds."""

    name: str
    fields: dict[str, Any]
    at: float
    wire: Any = None  # how it looked in its binding
    answered_at: float | None = None
    answer: Answer | None = None
    left_at: float | None = None  # when the worker hung up without an answer

    @property
    def status(self) -> int | None:
        return self.answer.status if self.answer else None


class Exchange(Protocol):
    """One call while it has no answer."""

    call: Call

    def forward(self) -> Answer:
        """Have the runtime answer."""
        ...

    def wait(self, seconds: float) -> None:
        """Let the worker wait; ends the exchange when it hangs up."""
        ...


Reply = Callable[[Exchange], Answer | None]


def say(**fields: Any) -> Reply:
    return lambda exchange: Answer(200, json.dumps(fields).encode(), {"content-type": "application/json"})


def refuse(status: int, code: str, message: str = "said no") -> Reply:
    """Answer with the runtime's own error."""
    body = json.dumps({"error": {"code": code, "message": message}}).encode()
    return lambda exchange: Answer(status, body, {"content-type": "application/json"})


def hold(seconds: float, reply: Reply | None = None) -> Reply:
    """Decide at once, tell it later."""

    def held(exchange: Exchange) -> Answer | None:
        answer = reply(exchange) if reply else exchange.forward()
        exchange.wait(seconds)
        return answer

    return held


def amend(**fields: Any) -> Reply:
    """Have the runtime answer, and change fields of its answer."""

    def amended(exchange: Exchange) -> Answer:
        answer = exchange.forward()
        return Answer(answer.status, json.dumps(answer.fields | fields).encode(), answer.headers)

    return amended


def lose(exchange: Exchange) -> None:
    """Have the runtime process the call, and lose its answer."""
    exchange.call.answer = exchange.forward()


def cut(exchange: Exchange) -> Answer:
    """Have the runtime process the call, and spoil its answer."""
    answer = exchange.forward()
    return Answer(answer.status, answer.body[: len(answer.body) // 2], answer.headers)


def drop(exchange: Exchange) -> None:
    """Let the call die before the runtime has seen it."""


def nothing(exchange: Exchange) -> Answer:
    """Answer a poll at once that there is no task."""
    return Answer(204)


def honest(exchange: Exchange) -> Answer:
    return exchange.forward()


def by_token(replies: dict[str, Reply], otherwise: Reply) -> Reply:
    """Answer the reports of some deliveries each in its own way."""
    return lambda exchange: replies.get(exchange.call.fields["token"], otherwise)(exchange)


accept = say(accepted=True)
unavailable = refuse(503, "UNAVAILABLE")
unknown_session = refuse(404, "UNKNOWN_SESSION", "unknown or expired worker session; register again")


def ignore(reason: str) -> Reply:
    """Answer a report that does not change the step."""
    return say(accepted=False, reason=reason)


def assert_growing(calls: list[Call], *least: float) -> None:
    """Insist on the gaps between calls: each so long, a fifth more by chance, and what a busy machine adds."""
    gaps = [late.at - early.at for early, late in pairwise(calls)]
    assert len(gaps) == len(least)
    for gap, shortest in zip(gaps, least, strict=True):
        assert shortest - 0.01 <= gap < shortest * 1.2 + 0.5, gaps


class Observer:
    """The record of all calls, and the replies that are not the runtime's."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self._scripts: dict[str, deque[Reply]] = defaultdict(deque)
        self._standing: dict[str, Reply] = {}
        self._deliveries: deque[dict[str, Any]] = deque()
        self._invented: set[str] = set()
        self._lock = threading.Lock()

    def script(self, name: str, *replies: Reply) -> None:
        """Give the next calls of a name these replies."""
        self._scripts[name].extend(replies)

    def always(self, name: str, reply: Reply = honest) -> None:
        """Give every call of a name this reply, until told otherwise."""
        self._standing[name] = reply

    def deliver(self, token: str = FIRST, **fields: Any) -> dict[str, Any]:
        """Hand out a task that the runtime does not know of; the reports of its token are accepted."""
        assignment = {"token": token, "idempotency_key": f"{token}/key"} | USUAL | fields
        self._invented.add(token)
        self._deliveries.append(assignment)
        return assignment

    @property
    def has_delivery(self) -> bool:
        return bool(self._deliveries)

    def answer(self, exchange: Exchange) -> Answer | None:
        """Return the answer to a call; None lets the connection die. For the faces of the bindings."""
        call = exchange.call
        with self._lock:
            self.calls.append(call)
            reply = self._chosen(call)
        answer = reply(exchange)
        call.answered_at = time.monotonic()
        call.answer = answer or call.answer
        return answer

    def overtaking(self) -> Answer | None:
        """Return the delivery that came while a poll waited. For the faces of the bindings."""
        with self._lock:
            return say(**self._deliveries.popleft())(None) if self._deliveries else None  # type: ignore[arg-type]

    def _chosen(self, call: Call) -> Reply:
        if self._scripts[call.name]:
            return self._scripts[call.name].popleft()
        if call.name in self._standing:
            return self._standing[call.name]
        if call.name == "poll" and self._deliveries:
            return say(**self._deliveries.popleft())
        return accept if call.fields.get("token") in self._invented else honest

    def named(self, *names: str, since: float = 0.0) -> list[Call]:
        """Return the calls of these names that arrived from a moment on."""
        with self._lock:
            return [call for call in self.calls if call.name in names and call.at >= since]

    def seen(self, name: str, count: int = 1, *, since: float = 0.0, seconds: float = 20) -> list[Call]:
        """Return the calls of a name as soon as so many have arrived, answered or not."""
        return list(wait_for(lambda: len(found := self.named(name, since=since)) >= count and found, seconds))

    def assignments(self) -> list[dict[str, Any]]:
        """Return the tasks that were handed out, in order."""
        polls = [call for call in self.named("poll") if call.answer and call.answer.status == 200]
        return [call.answer.fields for call in polls if call.answer]

    def wait(self, name: str, count: int = 1, *, since: float = 0.0, seconds: float = 15) -> list[Call]:
        """Return the calls of a name as soon as there are so many that have been answered or left."""

        def enough() -> list[Call]:
            ended = [call for call in self.named(name, since=since) if call.answered_at or call.left_at]
            return ended if len(ended) >= count else []

        return list(wait_for(enough, seconds))

    def reports(self, token: str | None = None) -> list[Call]:
        """Return the reports, of one delivery or of all."""
        return [call for call in self.named("complete", "fail") if token in (None, call.fields.get("token"))]

    def report(self, token: str = FIRST, seconds: float = 15) -> Call:
        """Return the report of a delivery, once it has been answered."""
        return next(iter(wait_for(lambda: [call for call in self.reports(token) if call.answered_at], seconds)))

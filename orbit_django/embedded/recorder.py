"""A log of every request that reached the runtime, for tests to read. Credentials never get into it."""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(slots=True)
class Exchange:
    """One request and what became of it; it is in the log as soon as the request has been read.

    ``status`` stays None while the answer is held, and for good when the connection was closed without one.
    """

    at: float  # monotonic seconds at which the request had been read
    method: str
    path: str  # without the query
    call: str  # ``poll``, ``complete``, …, or ``other``
    headers: dict[str, str]  # by lower-case name; of a credential only the scheme is left
    body: bytes | None  # None: larger than the runtime takes
    status: int | None = None
    answer: bytes = b""
    ended_at: float | None = None  # when the answer was sent, or the connection closed instead

    @property
    def json(self) -> Any:
        """The request's body, decoded; raises ValueError when it is not JSON."""
        return json.loads(self.body or b"")

    @property
    def answer_json(self) -> Any:
        """The answer's body, decoded; raises ValueError when it is not JSON."""
        return json.loads(self.answer)


class Recorder:
    """Keeps the exchanges in the order in which the requests came; with ``most``, the last so many."""

    def __init__(self, most: int | None = None) -> None:
        self._exchanges: deque[Exchange] = deque(maxlen=most)
        self._changed = threading.Condition()

    @property
    def exchanges(self) -> list[Exchange]:
        """Everything so far, in a list of its own."""
        with self._changed:
            return list(self._exchanges)

    def of(self, *calls: str, since: float = 0.0) -> list[Exchange]:
        """Return the exchanges of these calls, from a moment (monotonic seconds) on."""
        return [exchange for exchange in self.exchanges if exchange.call in calls and exchange.at >= since]

    def wait(self, condition: Callable[[list[Exchange]], Any], seconds: float = 10.0) -> Any:
        """Return what the condition returns once that is true; raise TimeoutError when it takes longer."""
        with self._changed:
            found = self._changed.wait_for(lambda: condition(list(self._exchanges)), seconds)
        if not found:
            raise TimeoutError(f"not seen within {seconds} s, in {len(self._exchanges)} requests")
        return found

    def clear(self) -> None:
        """Forget everything so far."""
        with self._changed:
            self._exchanges.clear()

    def begin(self, exchange: Exchange) -> None:
        """Note a request."""
        with self._changed:
            self._exchanges.append(exchange)
            self._changed.notify_all()

    def end(self, exchange: Exchange, status: int | None = None, answer: bytes = b"") -> None:
        """Note how a request ended; without a status the connection was closed."""
        with self._changed:
            exchange.status, exchange.answer = status, answer
            exchange.ended_at = time.monotonic()
            self._changed.notify_all()


def without_secrets(headers: Mapping[str, str]) -> dict[str, str]:
    """Return headers by lower-case name, with everything after the scheme of a credential cut out."""
    shown = {name.lower(): value for name, value in headers.items()}
    if credential := shown.get("authorization"):
        shown["authorization"] = f"{credential.split(' ')[0]} ***" if " " in credential else "***"
    return shown

"""What became of tries to report: written down, together where nothing hangs on the moment.

An answer that is lost with its process only means that the report is sent once more, which the runtime answers with
"duplicate". So under load what was accepted shares one statement with whatever else was, every 50 ms. Everything else
is written at once, and kept while the database does not take it.
"""

from __future__ import annotations

import logging
import threading
from collections import defaultdict, deque
from collections.abc import Callable
from functools import partial

from django.db import DatabaseError, InterfaceError, OperationalError

from orbit_django import outbox
from orbit_django.clock import Clock
from orbit_django.logs import SteadyLogger
from orbit_django.models import OutboxMessage
from orbit_django.protocol import Receipt
from orbit_django.worker import announce, housekeeping

logger = SteadyLogger(logging.getLogger(__name__))

GROUP_SECONDS = 0.05
IDLE_SECONDS = 1.0  # how often what the database did not take is tried again, at least


class Filing:
    """Writes for the relay, from any thread; ``step`` is one turn of its own thread.

    ``on_lost`` is told when the database does not take something. With ``group_seconds`` of 0 nothing is put together.
    """

    name = "filing"

    def __init__(
        self, on_lost: Callable[[Exception], object], clock: Clock, group_seconds: float = GROUP_SECONDS
    ) -> None:
        self._on_lost = on_lost
        self._clock = clock
        self._flushed_at = float("-inf")
        self._group_seconds = group_seconds
        self._answered: deque[OutboxMessage] = deque()
        self._unfiled: deque[Callable[[], object]] = deque()
        self._news = threading.Event()

    def answered(self, message: OutboxMessage, receipt: Receipt) -> None:
        """File the runtime's final answer: at once after a rest, soon under load."""
        now = self._clock.monotonic()
        has_rested = not self._answered and now - self._flushed_at >= self._group_seconds
        if has_rested or not receipt.accepted or receipt.text:
            self._flushed_at = now if has_rested else self._flushed_at
            self.write(partial(_settle, message, receipt))
            return
        message.status = OutboxMessage.Status.DELIVERED  # nobody here sends it again
        self._answered.append(message)
        if not self._news.is_set():  # else its thread has not looked yet
            self._news.set()

    def write(self, write: Callable[[], object]) -> bool:
        """Write at once; what the database does not take now is kept until it does."""
        try:
            write()
        except (OperationalError, InterfaceError) as error:
            self._on_lost(error)
            self._unfiled.append(write)
            return False
        except DatabaseError:  # it never will: let go of it, or it would hold up every other message
            logger.exception("what came of a result could not be filed; it falls due again")
        return True

    def step(self) -> float:
        """Write what has come together, then wait for more; return the seconds for which to collect it."""
        self.flush()
        if not self._news.wait(IDLE_SECONDS):
            return 0.0
        self._news.clear()
        return max(0.0, self._flushed_at + self._group_seconds - self._clock.monotonic())

    def wake(self) -> None:
        """Let its thread look up from its wait, as when the worker ends."""
        self._news.set()

    def flush(self) -> None:
        """Write everything that is open, as far as the database takes it."""
        if not self._unfiled and not self._answered:
            return
        self._flushed_at = self._clock.monotonic()
        housekeeping.before_task()
        for _ in range(len(self._unfiled)):
            if not self.write(self._unfiled.popleft()):
                break
        groups: dict[str, list[OutboxMessage]] = defaultdict(list)
        for _ in range(len(self._answered)):
            message = self._answered.popleft()
            groups[message._state.db or "default"].append(message)
        for using, messages in groups.items():
            self.write(partial(_settle_accepted, using, messages))


def _settle(message: OutboxMessage, receipt: Receipt) -> None:
    outbox.settle(message, receipt)
    announce.answered(message, receipt)


def _settle_accepted(using: str, messages: list[OutboxMessage]) -> None:
    outbox.settle_accepted(using, [message.pk for message in messages])
    announce.delivered(messages)

"""An owner that comes back: stopped when it has only to store its outcome, woken when its key has another owner."""

import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from orbit_django.models import IdempotencyRecord
from tests.testapp.models import Charge

T = TypeVar("T")

LIMIT_SECONDS = 5.0  # more than a claim and a session, or a lease, take to end
LOOK_SECONDS = 0.02
AFTER_SECONDS = 0.3  # whoever was woken acts for so long on what it knew before


@dataclass(kw_only=True)
class Sleeper:
    """One such sleep; looks are actions of the schedule, so that other faults strike meanwhile."""

    find_key: Callable[[], str]  # the ledger's key of a task that writes its row and then takes a while to end
    processes: dict[str, int]  # worker id -> process
    send: Callable[[int, int], object]
    at: Callable[[float, Callable[[], object]], None]
    pauses: list[tuple[int, float, float]]

    def watch(self) -> None:
        """Wait for the moment."""
        self._look(time.monotonic() + LIMIT_SECONDS, self._ready, self._stop)

    def _ready(self) -> IdempotencyRecord | None:
        """Return the record once its handler has nothing left to do but to end."""
        key = self.find_key()
        record = IdempotencyRecord.objects.running().filter(idempotency_key=key).first()
        return record if record is not None and Charge.objects.filter(key=key).exists() else None

    def _stop(self, record: IdempotencyRecord | None) -> None:
        if record is None:
            return  # other faults kept the task from coming so far
        process, began = self.processes[record.worker_id], time.monotonic()
        self.send(process, signal.SIGSTOP)
        same = IdempotencyRecord.objects.running().filter(pk=record.pk, owner=record.owner)

        def wake(_: object) -> None:
            self.send(process, signal.SIGCONT)
            self.pauses.append((process, began, time.monotonic() + AFTER_SECONDS))

        self._look(began + LIMIT_SECONDS, lambda: not same.exists(), wake)

    def _look(self, end: float, look: Callable[[], T], act: Callable[[T], object]) -> None:
        """Act on what a look finds, looking again and again; at the end, on whatever it finds."""
        found = look()
        if found or time.monotonic() > end:
            act(found)
        else:
            self.at(time.monotonic() + LOOK_SECONDS, lambda: self._look(end, look, act))

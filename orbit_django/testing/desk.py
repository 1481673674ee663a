"""The rooms of a worker that one delivery passes, joined without a loop, a session or a network."""

from __future__ import annotations

import threading

from orbit_django import conf
from orbit_django.clock import SystemClock
from orbit_django.context import TaskContext
from orbit_django.models import OutboxMessage
from orbit_django.outbox import Origin
from orbit_django.protocol import Assignment
from orbit_django.tasks import Task
from orbit_django.testing.transport import RecordingTransport
from orbit_django.worker.claims import Claims
from orbit_django.worker.delivery import Result
from orbit_django.worker.executor import Executor
from orbit_django.worker.gate import DatabaseGate
from orbit_django.worker.patience import Patience
from orbit_django.worker.relay import Relay
from orbit_django.worker.vitals import Vitals


class Desk:
    """An executor that serves one handler, and the relay that reports what came of it."""

    def __init__(self, task: Task, settings: conf.OrbitSettings, transport: RecordingTransport | None = None) -> None:
        self._settings = settings
        self._clock = SystemClock()
        self._ways = Ways(self._clock)
        gate, stop = DatabaseGate(), threading.Event()
        stop.set()  # patience ends soon: a test must not wait for a database for ever
        self.using = task.using or settings.database
        self._executor = Executor(
            settings,
            {task.contract: task},
            claims=Claims(settings.claim_seconds),
            patience=Patience(self._clock, gate, stop=stop, halt=threading.Event()),
            vitals=self._ways,
        )
        self._relay = Relay(
            transport or RecordingTransport(settings.reports_to),
            Origin(settings.worker_name(), settings.reports_to),
            (self.using,),
            clock=self._clock,
            gate=gate,
            redact=settings.redact,
            vitals=self._ways,
            group_seconds=0,
        )

    @property
    def is_replayed(self) -> bool:
        """Whether the latest outcome was a stored one."""
        return self._ways.latest == "replay"

    def execute(self, assignment: Assignment) -> Result:
        """Take a delivery as far as its commit."""
        context = TaskContext(assignment, worker_id=self._settings.worker_name(), clock=self._clock)
        return self._executor.execute(assignment, context)

    def report(self, message: OutboxMessage) -> None:
        """Send a message to nobody, who accepts it, and file that."""
        self._relay.deliver(message)


class Ways(Vitals):
    """Vitals that remember how the latest outcome came about."""

    latest = ""

    def finished(self, task: str, outcome: str, code: str = "") -> None:
        """Note and count an outcome."""
        self.latest = outcome
        super().finished(task, outcome, code)

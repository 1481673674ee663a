"""Deliveries put through a real executor in the test's own thread, without a runtime."""

import json
import threading
from collections.abc import Callable
from typing import Any
from uuid import uuid4

from orbit_django import outbox
from orbit_django.clock import SystemClock
from orbit_django.conf import OrbitSettings
from orbit_django.context import TaskContext
from orbit_django.dialects import dialect_of
from orbit_django.protocol import Assignment, Contract
from orbit_django.tasks import Task
from orbit_django.worker.claims import Claims
from orbit_django.worker.delivery import Result
from orbit_django.worker.executor import Executor
from orbit_django.worker.gate import DatabaseGate
from orbit_django.worker.ledger import CheckReport
from orbit_django.worker.patience import Patience
from orbit_django.worker.vitals import Vitals
from tests.testapp.models import Charge


class Desk:
    """An executor that serves one handler under the name ``test.task``."""

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        worker_id: str = "tester",
        check_report: CheckReport | None = None,
        **said: Any,
    ) -> None:
        dialect_of("default").prepare()  # as the connections of a worker are
        self.stop, self.halt = threading.Event(), threading.Event()
        self.runs = 0
        self._function = function
        self._version = said.pop("version", "1.0.0")
        clock, settings = SystemClock(), OrbitSettings(worker_id=worker_id, **said.pop("settings", {}))
        contract = Contract("test.task", self._version)
        patience = Patience(clock, DatabaseGate(), stop=self.stop, halt=self.halt)
        tasks = {contract: Task(contract, self._counting, **said)}
        self.claims = Claims(settings.claim_seconds)
        self._clock = clock
        self.vitals = Vitals(clock)
        self.executor = Executor(
            settings, tasks, claims=self.claims, patience=patience, vitals=self.vitals, check_report=check_report
        )

    def deliver(self, input: Any = None, **fields: Any) -> Result:
        """Put one delivery through; unnamed fields are those of a first delivery of the key ``e1/step``."""
        made = assignment(input, contract_version=fields.pop("contract_version", self._version), **fields)
        context = TaskContext(made, worker_id="tester", clock=self._clock)
        return self.executor.execute(made, context)

    def _counting(self, input: Any, ctx: TaskContext) -> Any:
        self.runs += 1
        return self._function(input, ctx)


def assignment(input: Any = None, **fields: Any) -> Assignment:
    """Return a delivery of ``test.task``."""
    usual: dict[str, Any] = {
        "token": f"token-{uuid4()}",
        "execution_id": "e1",
        "workflow": "W",
        "workflow_version": "1.0.0",
        "step_id": "step",
        "task_name": "test.task",
        "contract_version": "1.0.0",
        "idempotency_key": "e1/step",
    }
    return Assignment(**(usual | {"input": {} if input is None else input} | fields))


def charge(input: Any, ctx: TaskContext) -> dict[str, Any]:
    """Write one row: the handler of most tests."""
    Charge.objects.create(key=ctx.idempotency_key, amount=input.get("amount", 0), attempt=ctx.attempt)
    return {"amount": input.get("amount", 0)}


def sent(message: Any) -> Any:
    """Return the body that a message sends."""
    return json.loads(outbox.text_of(message))

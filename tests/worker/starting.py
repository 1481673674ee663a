"""Starts asked for, a double of the runtime that takes them, and a starter between the two."""

import json
from pathlib import Path
from typing import Any

from orbit_django import starts
from orbit_django.embedded.server import EmbeddedRuntime
from orbit_django.models import WorkflowStart
from orbit_django.worker.gate import DatabaseGate
from orbit_django.worker.starter import Starter

CONTRACT = Path(__file__).parent.parent / "crash" / "crash.orbit"
INPUT = {"amount": 5, "pause_ms": 0}
TOKEN = "adm-SECRET"


class Answers:
    """Records each start and gives the next scripted answer; without one, the execution is new."""

    def __init__(self) -> None:
        self.bodies: list[str] = []
        self.script: list[Any] = []

    def start(self, body: str, *, total_seconds: float) -> dict[str, Any]:
        assert total_seconds <= 10, "less than a sender's hold"
        self.bodies.append(body)
        answer = self.script.pop(0) if self.script else {}
        if isinstance(answer, Exception):
            raise answer
        return {"execution_id": json.loads(body)["execution_id"], "created": True} | answer


class World:
    """A starter over a double of the runtime and the test's database."""

    def __init__(self) -> None:
        self.answers = Answers()
        self.gate = DatabaseGate()
        self.starter = Starter(
            self.answers, ["default"], gate=self.gate, redact=lambda text: text.replace("SECRET", "****")
        )

    def look(self, *script: Any) -> float:
        self.answers.script = list(script)
        return self.starter.step()


def ask(execution_id: str = "e-1") -> None:
    starts.append("Charge", INPUT, execution_id, using="default")


def stored(execution_id: str = "e-1") -> WorkflowStart:
    return WorkflowStart.objects.get(execution_id=execution_id)


def hasten() -> None:
    """Let what backs off fall due now."""
    WorkflowStart.objects.pending().update(due_at=1)


def executions(runtime: EmbeddedRuntime) -> list[str]:
    with runtime.lock:
        return sorted(runtime.runtime.state.executions)

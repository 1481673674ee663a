"""Words of the protocol and doubles with usual values, for tests that care about one of them."""

import threading
from collections.abc import Callable
from typing import Any

from orbit_django.clock import Clock, FixedClock
from orbit_django.context import TaskContext
from orbit_django.exceptions import RefusedError
from orbit_django.protocol import Assignment, Contract, Registration, Session
from orbit_django.tasks import Task
from orbit_django.testing.transport import RecordingTransport

TOKEN = "token-1"
CHARGE = Contract("shop.charge", "1.0.0")
REGISTRATION = Registration("shop-1", "python", (CHARGE,), "orbit-django/test")


def assignment(token: str = TOKEN, **fields: Any) -> Assignment:
    usual = {
        "execution_id": "e-1",
        "workflow": "Order",
        "workflow_version": "1.0.0",
        "step_id": "charge",
        "task_name": CHARGE.task_name,
        "contract_version": CHARGE.contract_version,
        "input": {"order": "o-1"},
        "idempotency_key": "e-1/charge",
    }
    return Assignment(token, **usual | fields)


def context(token: str = TOKEN, clock: Clock | None = None, **fields: Any) -> TaskContext:
    return TaskContext(assignment(token, **fields), worker_id="shop-1", clock=clock or FixedClock())


def task(function: Callable[..., Any], **fields: Any) -> Task:
    return Task(CHARGE, function, **fields)


def refusal(status: int, code: str = "", message: str = "no", *, is_from_runtime: bool = True) -> RefusedError:
    return RefusedError(status, code, message, is_from_runtime=is_from_runtime)


class TickingClock(FixedClock):
    """A clock that moves by itself, each time that it is read."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds

    def monotonic(self) -> float:
        self.advance(self.seconds)
        return self.ticks


class NoWait(threading.Event):
    """An event whose waits end at once and are written down; ``then`` is called in each of them."""

    def __init__(self, then: Callable[[], object] = lambda: None) -> None:
        super().__init__()
        self.waits: list[float] = []
        self.then = then

    def wait(self, timeout: float | None = None) -> bool:
        self.waits.append(timeout or 0.0)
        self.then()
        return self.is_set()


class HookedTransport(RecordingTransport):
    """The recording binding, with something that happens during a register, a poll or a heartbeat."""

    def __init__(self) -> None:
        super().__init__()
        self.during: dict[str, Callable[[], object]] = {}
        self.limits: list[float] = []  # of heartbeats, in seconds

    def register(self, registration: Registration) -> Session:
        session = super().register(registration)
        self.during.get("register", lambda: None)()
        return session

    def poll(self, session_id: str, wait_ms: int) -> Assignment | None:
        self.during.get("poll", lambda: None)()
        return super().poll(session_id, wait_ms)

    def heartbeat(self, session_id: str, *, timeout_seconds: float) -> tuple[str, ...]:
        self.limits.append(timeout_seconds)
        cancelled = super().heartbeat(session_id, timeout_seconds=timeout_seconds)
        self.during.get("heartbeat", lambda: None)()
        return cancelled

    def names(self) -> list[str]:
        return [call.name for call in self.calls]


def assert_backs_off(waits: list[float], *, late: float = 0.0) -> None:
    """See that waits double from 200 ms up to 5 s, more or less by chance, and are at most so much ``late``."""
    usual = (0.2, 0.4, 0.8, 1.6, 3.2)
    for number, wait in enumerate(waits):
        low, top = (usual[number], usual[number] * 1.2) if number < len(usual) else (4.5, 5.0)
        assert low - late <= wait <= top, waits

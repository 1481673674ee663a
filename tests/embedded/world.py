"""A runtime with a clock that stands still, and shortcuts to speak to it as a worker does."""

from collections.abc import Iterable
from typing import Any

from orbit_django.clock import FixedClock
from orbit_django.contracts import Catalog, read
from orbit_django.embedded import views
from orbit_django.embedded.executions import Execution
from orbit_django.embedded.runtime import Runtime
from orbit_django.embedded.store import MemoryStore, Store
from tests.contracts.texts import GREET

COMPOSE = ("greeting.compose", "1.0.0")


def registration(worker_id: str = "w-1", runtime: str = "ruby", *contracts: tuple[str, str]) -> dict[str, Any]:
    pairs = contracts or (COMPOSE,)
    announced = [{"task_name": name, "contract_version": version} for name, version in pairs]
    return {"worker_id": worker_id, "runtime": runtime, "contracts": announced}


class World:
    """The runtime, its clock and its store."""

    def __init__(self, text: str | Catalog = GREET, store: Store | None = None) -> None:
        self.clock = FixedClock()
        self.store = store or MemoryStore()
        self.restart(text)

    def restart(self, text: str | Catalog) -> None:
        catalog = read(text) if isinstance(text, str) else text
        self.runtime = Runtime(catalog, store=self.store, clock=self.clock, session_timeout_ms=6_000)

    def session(self, worker_id: str = "w-1", runtime: str = "ruby", *contracts: tuple[str, str]) -> str:
        return str(self.runtime.register(registration(worker_id, runtime, *contracts))["worker_session_id"])

    def greet(self, execution_id: str = "e-1") -> None:
        self.runtime.start("Greet", {"name": "Ada"}, execution_id)

    def held(self) -> tuple[str, dict[str, Any]]:
        """Start an execution and hand its step out; return the session and the assignment."""
        session = self.session()
        self.greet()
        return session, self.task(session)

    def task(self, session: str) -> dict[str, Any]:
        assignment = self.runtime.poll(session)
        assert assignment is not None, "no task was handed out"
        return assignment

    def fail(self, token: str, code: str = "BUSY", *, retryable: bool = True) -> dict[str, Any]:
        return self.runtime.fail(token, {"code": code, "message": "said", "retryable": retryable})

    def passes(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.runtime.tick()

    def execution(self, execution_id: str = "e-1") -> Execution:
        return self.runtime.state.execution(execution_id)

    def history(self, execution_id: str = "e-1") -> list[dict[str, Any]]:
        return views.history_view(self.runtime, execution_id)

    def events(self, execution_id: str = "e-1") -> list[str]:
        return [entry["event"] for entry in self.history(execution_id)]


def tokens(assignments: Iterable[dict[str, Any]]) -> list[str]:
    return [assignment["token"] for assignment in assignments]

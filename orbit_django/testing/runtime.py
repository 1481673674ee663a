"""An embedded runtime for one test: on a free loopback port, in memory, with a clock that can be put forward."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.conf import settings as project
from django.test.utils import override_settings

from orbit_django import conf
from orbit_django.clock import SystemClock
from orbit_django.embedded.executions import Execution
from orbit_django.embedded.faults import Faults
from orbit_django.embedded.server import EmbeddedRuntime
from orbit_django.embedded.steps import StepState, StepStatus
from orbit_django.embedded.views import execution_view
from orbit_django.logs import SteadyLogger

logger = SteadyLogger(logging.getLogger(__name__))

SESSION_TIMEOUT_MS = 300_000  # nobody sends heartbeats while a test works in its own thread


class ForwardClock(SystemClock):
    """The machine's clock, put forward by some seconds."""

    def __init__(self) -> None:
        self._ahead = 0.0

    def wall(self) -> float:
        """Return the seconds since the Unix epoch."""
        return super().wall() + self._ahead

    def monotonic(self) -> float:
        """Return monotonic seconds."""
        return super().monotonic() + self._ahead

    def advance(self, seconds: float) -> None:
        """Put both times forward."""
        self._ahead += seconds


class LocalRuntime(EmbeddedRuntime):
    """The embedded runtime with time that passes on demand; ``faults`` can be injected."""

    def __init__(self, contracts: Any = (), **options: Any) -> None:
        self._forward = ForwardClock()
        options.setdefault("session_timeout_ms", SESSION_TIMEOUT_MS)
        options.setdefault("faults", Faults())
        super().__init__(contracts, clock=self._forward, **options)

    def execution(self, execution_id: str) -> dict[str, Any]:
        """Return an execution as the runtime shows it: ``status``, ``output``, ``error``, ``steps`` and more."""
        with self.lock:
            return execution_view(self.runtime.state.execution(execution_id))

    def pass_time(self, seconds: float) -> None:
        """Put the runtime's clock forward; whatever falls due by that happens now."""
        with self.changing() as runtime:
            self._forward.advance(max(seconds, 0.0))
            runtime.tick()
            self._wake.notify_all()

    def next_retry(self) -> float | None:
        """Return the seconds until the next retry of a step, None when no step waits for one."""
        with self.lock:
            state = self.runtime.state
            due = [step.retry_at_ms for _, step in self._steps(StepStatus.DELAYED)]
            return max(min(due) / 1000 - state.clock.wall(), 0.0) if due else None

    def tell_waiting(self) -> None:
        """Log a warning for each step that waits for a worker."""
        with self.lock:
            for execution, step in self._steps(StepStatus.QUEUED):
                task = execution.contract(step)
                about = {"execution": execution.id, "step": step.name, "task": f"{task.name} {task.version}"}
                logger.warning("a step waits for a handler that nobody here has", extra=about)

    def _steps(self, status: StepStatus) -> Iterator[tuple[Execution, StepState]]:
        for execution in self.runtime.state.executions.values():
            if execution.status == "RUNNING":
                yield from ((execution, step) for step in execution.steps.values() if step.status is status)


@contextmanager
def running_runtime(**options: Any) -> Iterator[LocalRuntime]:
    """Run a runtime that needs no credential, with ``settings.ORBIT`` pointing to it; ``options`` are the runtime's.

    With a TRANSPORT of ``grpc`` it is worked for over gRPC, with any other over HTTP. It begins with the contracts of
    the setting CONTRACTS; ``declare`` adds others.
    """
    given = dict(getattr(project, "ORBIT", None) or {})
    is_grpc = conf.load().transport == "grpc"
    if is_grpc:
        options.setdefault("grpc_port", 0)
    runtime = LocalRuntime(options.pop("contracts", conf.load().contracts), **options)
    with runtime:
        way = {"TRANSPORT": "grpc", "GRPC_TARGET": runtime.grpc_target} if is_grpc else {"TRANSPORT": "http"}
        ours = {"SERVER": runtime.url, "PROXY": None} | way
        with override_settings(ORBIT=given | ours):
            yield runtime

"""What a handler sees of its delivery, and how it learns that it should stop."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Protocol

from orbit_django.clock import Clock
from orbit_django.exceptions import ConfigurationError, NotRepeatableError, TaskCancelled
from orbit_django.logs import BoundLogger, about
from orbit_django.payloads import effect_key
from orbit_django.protocol import Assignment, CredentialLease
from orbit_django.redaction import MET

logger = logging.getLogger("orbit_django.handlers")


class CancelReason(StrEnum):
    """Who wants the handler to stop."""

    RUNTIME = "runtime"
    DEADLINE = "deadline"
    SHUTDOWN = "shutdown"


class CancelFlag(threading.Event):
    """An event that is also set by the attempt's deadline, without a thread that watches it (O143)."""

    def __init__(self, clock: Clock, deadline: float | None, *, is_certain: bool = True) -> None:
        super().__init__()
        self._is_certain = is_certain
        self._clock = clock
        self._deadline = deadline
        self.reason: CancelReason | None = None

    @property
    def remaining_seconds(self) -> float | None:
        """Seconds until the deadline, never negative; None when there is none."""
        return None if self._deadline is None else max(0.0, self._deadline - self._clock.monotonic())

    @property
    def is_over(self) -> bool:
        """Whether the runtime has surely ended the attempt: a timeout has passed since it was received here.

        A deadline that came alone proves nothing: the runtime's clock may be another one.
        """
        return self._is_certain and self.remaining_seconds == 0

    def cancel(self, reason: CancelReason) -> None:
        """Set the event; the first reason stays."""
        self.reason = self.reason or reason
        self.set()

    def is_set(self) -> bool:
        """Return whether the handler should stop."""
        if self.remaining_seconds == 0 and self.reason is None:
            self.cancel(CancelReason.DEADLINE)
        return super().is_set()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until set, at most ``timeout`` seconds, never beyond the deadline."""
        remaining = self.remaining_seconds
        if not super().is_set():
            limits = [limit for limit in (timeout, remaining) if limit is not None]
            super().wait(min(*limits, threading.TIMEOUT_MAX) if limits else None)
        return self.is_set()


class Effects(Protocol):
    """What carries out ``ctx.effect`` and ``ctx.transaction`` of a task that is not atomic."""

    def effect(self, name: str, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Call the outside world once."""
        ...

    def transaction(self, name: str, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Run a piece of database work once."""
        ...


Lend = Callable[[str, str], CredentialLease]  # of a delivery's token and the name of a slot


class TaskContext:
    """One delivery as its handler sees it; every field of the assignment but the input."""

    def __init__(
        self,
        assignment: Assignment,
        *,
        worker_id: str,
        clock: Clock,
        effects: Effects | None = None,
        lend: Lend | None = None,
    ) -> None:
        MET.note(assignment.token)
        self._lend = lend
        self._assignment = assignment
        self._clock = clock
        self.effects = effects
        self.worker_id = worker_id
        self.cancelled = CancelFlag(
            clock, _monotonic_deadline(assignment, clock), is_certain=assignment.timeout_ms is not None
        )
        self.logger = BoundLogger(logger, about(assignment))

    def __repr__(self) -> str:
        """Name the delivery without its token."""
        seen = self._assignment
        return f"<TaskContext {seen.task_name} {seen.execution_id}/{seen.step_id} attempt {seen.attempt}>"

    @property
    def token(self) -> str:
        """The secret of this delivery; never log it."""
        return self._assignment.token

    @property
    def execution_id(self) -> str:
        """The workflow execution."""
        return self._assignment.execution_id

    @property
    def workflow(self) -> str:
        """The workflow's name."""
        return self._assignment.workflow

    @property
    def workflow_version(self) -> str:
        """The workflow's version."""
        return self._assignment.workflow_version

    @property
    def step_id(self) -> str:
        """The unit: ``step``, ``step[0]``, ``compensate:unit`` or ``on_failure:step`` (O072)."""
        return self._assignment.step_id

    @property
    def task_name(self) -> str:
        """The task's name."""
        return self._assignment.task_name

    @property
    def contract_version(self) -> str:
        """The version of the task's contract."""
        return self._assignment.contract_version

    @property
    def idempotency_key(self) -> str:
        """The same text for every retry and redelivery of the step (O075)."""
        return self._assignment.idempotency_key

    @property
    def attempt(self) -> int:
        """The number of the try, from 1; a redelivery keeps it (O076)."""
        return self._assignment.attempt

    @property
    def redelivery(self) -> bool:
        """Whether an earlier delivery of this attempt has an unknown outcome (O077)."""
        return self._assignment.redelivery

    @property
    def timeout_ms(self) -> int | None:
        """The step's timeout in milliseconds; None when it has none (O078)."""
        return self._assignment.timeout_ms

    @property
    def deadline(self) -> datetime | None:
        """When the attempt ends, by the runtime's clock; None without a timeout."""
        milliseconds = self._assignment.deadline_ms
        if milliseconds is None:
            return None
        try:
            return datetime.fromtimestamp(milliseconds / 1000, tz=UTC)
        except (OverflowError, ValueError, OSError):
            return datetime.max.replace(tzinfo=UTC) if milliseconds > 0 else datetime.min.replace(tzinfo=UTC)

    @property
    def remaining_ms(self) -> int | None:
        """Milliseconds left, never negative; None without a deadline. Meant to bound calls to others (O197)."""
        remaining = self.cancelled.remaining_seconds
        return None if remaining is None else int(remaining * 1000)

    @property
    def is_cancelled(self) -> bool:
        """Whether the handler should stop: the runtime said so, or the deadline has passed."""
        return self.cancelled.is_set()

    def raise_if_cancelled(self) -> None:
        """Raise TaskCancelled when the handler should stop."""
        if self.is_cancelled:
            raise TaskCancelled(f"the attempt was cancelled by the {self.cancelled.reason}")

    def sleep(self, seconds: float) -> bool:
        """Sleep; return False, at once, when the handler should stop."""
        return not self.cancelled.wait(seconds)

    def effect_key(self, name: str) -> str:
        """Return a text that names this effect of this step in every run: an idempotency key for others."""
        seen = self._assignment
        return effect_key(seen.task_name, seen.step_kind, seen.idempotency_key, name)

    def effect(self, name: str, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Call the outside world once for this key and keep the result; only in a task with ``atomic=False``."""
        return self._only_non_atomic("effect").effect(name, function, *args, **kwargs)

    def transaction(self, name: str, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Run database work once for this key and keep the result; only in a task with ``atomic=False``."""
        return self._only_non_atomic("transaction").transaction(name, function, *args, **kwargs)

    def credentials(self, slot: str) -> CredentialLease:
        """Return a secret that the runtime lends to this attempt for a short time; ask again when it has expired.

        Raises CredentialsError when the runtime lends none, and ConfigurationError where no runtime could.
        """
        if self._lend is None:
            raise ConfigurationError("ctx.credentials: no runtime is there that could lend any")
        lease = self._lend(self.token, slot)
        MET.note(lease.value)
        return lease

    def _only_non_atomic(self, what: str) -> Effects:
        if self.effects is None:
            raise NotRepeatableError(
                f"ctx.{what} needs a task with atomic=False: {self.task_name} runs in one transaction, "
                "in which nothing can be kept before the end"
            )
        return self.effects


def _monotonic_deadline(assignment: Assignment, clock: Clock) -> float | None:
    """Return the local deadline: ``timeout_ms`` since receipt, or ``deadline_ms`` when it comes alone."""
    if assignment.timeout_ms is not None:
        return clock.monotonic() + max(assignment.timeout_ms, 0) / 1000
    if assignment.deadline_ms is not None:
        return clock.monotonic() + max(assignment.deadline_ms / 1000 - clock.wall(), 0.0)
    return None

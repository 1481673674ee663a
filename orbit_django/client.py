"""Start executions, look at them, wait for them and cancel them; or have one started when a transaction commits.

These are administrative calls: they always use the admin token ``TOKEN``, always over HTTP, whatever binding and
credential the workers use (O031, O035). The client retries nothing; the id makes it safe to start again.
"""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from django.apps import apps
from django.core.exceptions import ImproperlyConfigured

from orbit_django import conf, contracts
from orbit_django.clock import Clock, SystemClock
from orbit_django.conf.files import mark_of
from orbit_django.contracts import mismatches
from orbit_django.contracts.names import instead
from orbit_django.exceptions import ConfigurationError, PayloadError, PayloadTooLargeError
from orbit_django.logs import SteadyLogger
from orbit_django.payloads import compact, plain
from orbit_django.tasks import registry
from orbit_django.transports.executions import Executions, start_body

WAIT_MS = 20_000  # the longest single wait; longer ones are repeated
EARLY_SECONDS = 1.0  # pause after a wait that the runtime ended early without a final status
RUNNING = "RUNNING"
logger = SteadyLogger(logging.getLogger(__name__))


class Client:
    """The execution API of one runtime; safe to use from many threads.

    Each call may raise RefusedError with the runtime's words, NoAnswerError when nothing final came back,
    PayloadError for what cannot be sent, and ConfigurationError when the runtime wants a token and none is set.
    """

    def __init__(
        self,
        settings: conf.OrbitSettings | None = None,
        *,
        clock: Clock | None = None,
        pause: Callable[[float], object] | None = None,
    ) -> None:
        self._executions = Executions(settings or conf.load())
        self._clock = clock or SystemClock()
        self._pause = pause or threading.Event().wait

    def start(self, workflow: str, input: Any = None, *, execution_id: str | None = None) -> str:
        """Start an execution and return its id (O220).

        ``input`` is an object of JSON values, None counts as an empty one. Without ``execution_id`` one is made
        here. A start that brought no answer may be repeated with the same id: it starts nothing twice.
        """
        execution_id = uuid.uuid4().hex if execution_id in (None, "") else execution_id
        given = compact(plain({} if input is None else input, "$.input"))
        started = self._executions.start(start_body(workflow, given, execution_id))
        return str(started.get("execution_id") or execution_id)

    def get(self, execution_id: str) -> dict[str, Any]:
        """Return the execution as the runtime shows it: ``id``, ``workflow``, ``status``, ``output`` and more."""
        return self._executions.get(execution_id)

    def wait(self, execution_id: str, *, timeout_seconds: float | None = None) -> dict[str, Any]:
        """Return the execution once it has ended, or as it is after ``timeout_seconds`` (O220).

        Its ``status`` tells which: ``RUNNING`` is the only one that is not final. Raises ValueError for seconds that
        are none.
        """
        if timeout_seconds is not None and not timeout_seconds >= 0:
            raise ValueError(f"timeout_seconds: expected seconds from 0, found {timeout_seconds!r}")
        ends_at = self._clock.monotonic() + (float("inf") if timeout_seconds is None else timeout_seconds)
        while True:
            asked_at = self._clock.monotonic()
            wait_ms = max(1, min(WAIT_MS, int(min(ends_at - asked_at, WAIT_MS) * 1000)))
            view = self._executions.wait(execution_id, wait_ms)
            now = self._clock.monotonic()
            if view.get("status") != RUNNING or now >= ends_at:
                return view
            self._pause(min(max(asked_at + wait_ms / 1000 - now, 0.0), EARLY_SECONDS))

    def cancel(self, execution_id: str, reason: str = "") -> dict[str, Any]:
        """Ask for an end of the execution; the answer may still show it as running (O217)."""
        return self._executions.cancel(execution_id, reason)

    def workers(self) -> list[dict[str, Any]]:
        """Return every worker that has registered, as the runtime shows it (O113)."""
        return self._executions.workers()

    def close(self) -> None:
        """Let go of every connection."""
        self._executions.close()


def start_on_commit(
    workflow: str, input: Any = None, *, execution_id: str | None = None, using: str | None = None
) -> str:
    """Have an execution started once the caller's transaction has committed; return its id.

    The wish is a row of that transaction: rolled back, nothing starts; committed, a worker with a TOKEN, or
    ``orbit_outbox flush``, sends it until the runtime answers, and the id makes that one execution. Outside of a
    transaction the row is committed at once. ``input`` is an object of JSON values, None counts as an empty one;
    ``using`` is the alias of the transaction, DATABASE by default. The same id, workflow and input again changes
    nothing. A workflow that CONTRACTS does not declare, and an input that does not match what it declares, are kept as
    well, since the runtime may know more than these files; the log warns of the one once for each name, of the other
    each time.

    Raises, before anything is written, StartConflictError for an id that has another workflow or input,
    PayloadError and PayloadTooLargeError for what cannot be sent, ConfigurationError for an alias that no worker
    looks at; and ImproperlyConfigured in a project that has not installed this app.
    """
    try:
        from orbit_django.starts import append  # reaches the tables, which whoever imports Client early cannot yet
    except RuntimeError:
        if apps.is_installed("orbit_django"):
            raise
        raise ImproperlyConfigured('add "orbit_django" to INSTALLED_APPS: start_on_commit needs its tables') from None
    settings = conf.load()
    execution_id = uuid.uuid4().hex if execution_id is None else execution_id
    value = plain({} if input is None else input, "$.input")
    if not isinstance(value, dict):
        raise PayloadError("$.input", f"is of type {type(input).__name__}; the input of a workflow is an object")
    size = len(start_body(workflow, compact(value), execution_id))
    if size > settings.max_body_bytes:
        raise PayloadTooLargeError(size, settings.max_body_bytes)
    append(workflow, value, execution_id, using=_looked_at(using or settings.database, settings))
    if settings.contracts:
        _warn_of_doubts(workflow, input, value, settings.contracts)
    return execution_id


def _warn_of_doubts(workflow: str, given: Any, value: dict[str, Any], files: tuple[str, ...]) -> None:
    """Warn of a start that is probably wrong; nobody but the runtime can say that it is."""
    marks = tuple(map(mark_of, files))
    catalog = _catalog(files, marks)
    if not catalog.workflows:
        return
    if (declared := catalog.workflow(workflow)) is None:
        _warn_of_unknown(workflow, files, marks)
        return
    wrong = [f"{path}: {text}{_sent_as(path, given, value)}" for path, text in mismatches(value, declared.input)]
    if wrong:
        text = (
            "start_on_commit: the input does not match what CONTRACTS declares for workflow %r: %s;"
            " the runtime refuses the start unless it knows it otherwise"
        )
        logger.warning(text, workflow, "; ".join(wrong))  # all in the text: a web process may show no extras


@lru_cache(maxsize=4)  # for a call costs no more than a look whether the files have changed
def _catalog(files: tuple[str, ...], marks: tuple[object, ...]) -> contracts.Catalog:
    try:
        return contracts.load(files)
    except ConfigurationError:
        return contracts.Catalog()  # told by E005


@lru_cache(maxsize=256)  # so that it is told once for each name, and again after the files have changed
def _warn_of_unknown(workflow: str, files: tuple[str, ...], marks: tuple[object, ...]) -> None:
    end = instead(workflow, [name for name, _ in _catalog(files, marks).workflows])
    text = "start_on_commit: CONTRACTS declares no workflow %r; the runtime refuses the start unless it knows it%s"
    logger.warning(text, workflow, end)


def _sent_as(path: str, given: Any, value: dict[str, Any]) -> str:
    """Return what a value of Python was that JSON has no type for, so that the type that was found is understood."""
    name = path.removeprefix("$.")
    if not isinstance(given, Mapping) or name not in given or isinstance(given[name], type(value.get(name))):
        return ""
    return f", as which {type(given[name]).__name__} is sent"


def _looked_at(using: str, settings: conf.OrbitSettings) -> str:
    """Return the alias; a start on one that workers keep no records in would wait for ever."""
    if using != settings.database and using not in {task.using for task in registry}:
        raise ConfigurationError(
            f"using={using!r}: no worker looks for starts there; expected DATABASE ({settings.database!r}), or an"
            " alias that a task names with using="
        )
    return using

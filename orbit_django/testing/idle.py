"""``run_until_idle``: work for a runtime until nothing is due, in the caller's thread or with a real worker's."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import astuple

from orbit_django import conf
from orbit_django.checks import preflight
from orbit_django.clock import SystemClock
from orbit_django.conf.options import RunOptions
from orbit_django.context import TaskContext
from orbit_django.embedded.views import counters_view
from orbit_django.exceptions import ConfigurationError, RefusedError
from orbit_django.outbox import Origin
from orbit_django.protocol import SDK, Registration
from orbit_django.tasks import Task, registry
from orbit_django.testing.deliveries import leaving_no_file, need_commits, usable_aliases
from orbit_django.testing.runtime import LocalRuntime
from orbit_django.transports.base import Transport, checker_of
from orbit_django.transports.executions import Executions
from orbit_django.worker.binding import open_transport
from orbit_django.worker.claims import Claims
from orbit_django.worker.executor import Executor
from orbit_django.worker.flush import flush, flush_starts
from orbit_django.worker.gate import DatabaseGate
from orbit_django.worker.held import Held
from orbit_django.worker.loop import PollLoop, Rooms
from orbit_django.worker.parking import Parking
from orbit_django.worker.patience import Patience
from orbit_django.worker.relay import Relay
from orbit_django.worker.runner import LoopThread, StoppedError
from orbit_django.worker.session import SessionHolder
from orbit_django.worker.worker import Worker, aliases_of

WAIT_MS = 100  # of a poll that finds nothing, the last one of every run
LIMIT_SECONDS = 60.0
END_SECONDS = 5.0  # how long the threads of a worker have to end
PAUSE_SECONDS = 3600.0  # a retry that is further away is not waited for


def run_until_idle(runtime: LocalRuntime, *, threads: int = 0) -> int:
    """Start what wants to be started, run tasks and deliver results until nothing is due; return how many tasks.

    The pause before a retry is skipped by putting the runtime's clock forward, up to an hour at a time. Without
    ``threads`` all of it happens in the caller's thread and transaction, one task at a time; with them a real worker
    with so many poll loops does it, which needs a test that commits.

    Raises ConfigurationError when the runtime does not let the worker in, or in a test that may not use a database;
    AssertionError after a minute.
    """
    __tracebackhide__ = True
    usable_aliases("run_until_idle")
    clock = SystemClock()
    ends_at = clock.monotonic() + LIMIT_SECONDS
    before, tasks = _dispatched(runtime), _served(runtime)
    while clock.monotonic() < ends_at:
        with leaving_no_file(aliases_of(conf.load(), tasks)):
            if threads:
                _by_threads(tasks, threads)
            else:
                _by_hand(tasks, lambda: clock.monotonic() < ends_at)
        pause = runtime.next_retry()
        if pause is None or pause > PAUSE_SECONDS:
            runtime.tell_waiting()
            return _dispatched(runtime) - before
        runtime.pass_time(pause)
    raise AssertionError(f"after {LIMIT_SECONDS:.0f} s there still is something to do")


def _dispatched(runtime: LocalRuntime) -> int:
    with runtime.lock:
        return counters_view(runtime.runtime)["tasks_dispatched"]


def _served(runtime: LocalRuntime) -> tuple[Task, ...]:
    """Return the handlers of tasks that the runtime has a contract of, or all: it would warn of each other one."""
    with runtime.lock:
        known = set(runtime.catalog.tasks)
    found = tuple(registry)
    return tuple(task for task in found if astuple(task.contract) in known) or found


def _by_threads(tasks: tuple[Task, ...], count: int) -> None:
    settings, present = conf.load(concurrency=count), set(threading.enumerate())
    aliases = aliases_of(settings, tasks)
    need_commits("run_until_idle with threads", aliases)
    preflight(registry, tasks, aliases)
    worker = Worker(settings, tasks, open_transport(settings), how=RunOptions(burst=True))
    code = worker.run()
    for thread in set(threading.enumerate()) - present:
        if isinstance(thread, LoopThread):
            thread.join(END_SECONDS)
    _check_admitted(worker.refusal)
    if code:
        raise AssertionError("the worker ended before everything was done: its log says why")


def _by_hand(tasks: tuple[Task, ...], has_time: Callable[[], bool]) -> None:
    with _hand(conf.load(), tasks) as hand:
        while hand.step() and has_time():
            pass


@contextmanager
def _hand(settings: conf.OrbitSettings, tasks: tuple[Task, ...]) -> Iterator[Hand]:
    transport = open_transport(settings)
    executions = Executions(settings) if settings.may_start else None
    hand = Hand(settings, tasks, transport, executions)
    try:
        yield hand
    finally:
        hand.session.close()
        transport.close()
        if executions is not None:
            executions.close()


class Hand:
    """One poll loop of a worker that is stepped by hand, and the sending of what is owed."""

    def __init__(
        self, settings: conf.OrbitSettings, tasks: tuple[Task, ...], transport: Transport, executions: Executions | None
    ) -> None:
        self._settings = settings
        self._transport = transport
        self._executions = executions
        self._clock = SystemClock()
        self._stop = threading.Event()
        self._held = Held()
        self._gate = DatabaseGate()
        self._origin = Origin(settings.worker_name(), settings.reports_to, transport.name)
        usable = usable_aliases("run_until_idle")
        self._aliases = tuple(alias for alias in aliases_of(settings, tasks) if alias in usable)
        self._refusal: RefusedError | None = None
        contracts = tuple(task.contract for task in tasks)
        self.session = SessionHolder(
            transport,
            Registration(settings.worker_name(), settings.runtime, contracts, SDK),
            held=self._held,
            clock=self._clock,
            stop=self._stop,
            on_refused=self._turned_away,
        )
        self._loop = PollLoop(self._rooms(tasks), 1)

    def step(self) -> bool:
        """Send what is owed and poll once; return whether there may be more to do."""
        is_owed = self._send()
        began = self._clock.monotonic()
        try:
            wait = self._loop.step()
        except StoppedError:
            _check_admitted(self._refusal)
            raise
        self._stop.wait(min(wait, 0.2))
        left = self._send()
        return bool(is_owed or left or not self._loop.found_nothing_since(began))

    def _send(self) -> int:
        """Send every start and every result that nobody holds; return how many were sent or are left."""
        count = 0
        if self._executions is not None:
            count += sum(flush_starts(self._executions, self._aliases, self._settings.redact))
        return count + sum(flush(self._transport, self._origin, self._aliases, self._settings.redact))

    def _turned_away(self, error: RefusedError) -> None:
        self._refusal = error

    def _rooms(self, tasks: tuple[Task, ...]) -> Rooms:
        settings, leaving = self._settings, threading.Event()
        leaving.set()  # patience ends soon: a test must not wait for a database for ever
        patience = Patience(self._clock, self._gate, stop=leaving, halt=threading.Event())
        claims = Claims(settings.claim_seconds)
        return Rooms(
            transport=self._transport,
            session=self.session,
            executor=Executor(
                settings,
                {task.contract: task for task in tasks},
                claims=claims,
                patience=patience,
                check_report=checker_of(self._transport),
            ),
            relay=Relay(
                self._transport,
                self._origin,
                self._aliases,
                clock=self._clock,
                gate=self._gate,
                redact=settings.redact,
                group_seconds=0,
            ),
            parking=NoParking(1, self._clock, self._stop),
            held=self._held,
            gate=self._gate,
            clock=self._clock,
            stop=self._stop,
            worker_id=settings.worker_name(),
            concurrency=1,
            wait_ms=WAIT_MS,
        )


class NoParking(Parking):
    """Nobody else works here who could be waited for: a busy delivery is left, and comes again in a later session."""

    def park(self, context: TaskContext, ask: Callable[[], bool], leave: Callable[[], None]) -> None:
        """Leave the delivery."""
        leave()


def _check_admitted(refusal: RefusedError | None) -> None:
    if refusal is not None:
        raise ConfigurationError(f"the runtime does not let this worker in: {refusal}")

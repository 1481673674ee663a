"""The worker: joins the rooms, owns the threads and the signals, and stops everything in the right order.

Stop order: no new polls; handlers end and their results are committed; results are delivered, as far as the
runtime takes them; the heartbeat, which went on until then, ends; the session is given back. Whatever is left
undone by a hasty end is in the database or is delivered again by the runtime.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Sequence

from django.db import DatabaseError, InterfaceError, connections

from orbit_django.clock import Clock, SystemClock
from orbit_django.conf import OrbitSettings
from orbit_django.conf.options import RunOptions
from orbit_django.dialects import is_queued, preparing
from orbit_django.exceptions import RefusedError
from orbit_django.logs import SteadyLogger, redacting
from orbit_django.outbox import Origin
from orbit_django.protocol import SDK, Registration
from orbit_django.tasks import Task
from orbit_django.transports.base import Transport, checker_of, deliveries_of
from orbit_django.transports.executions import Executions
from orbit_django.worker import burst
from orbit_django.worker.allowance import Allowance
from orbit_django.worker.burst import Burst
from orbit_django.worker.claims import Claims
from orbit_django.worker.executor import Executor
from orbit_django.worker.gate import DatabaseGate
from orbit_django.worker.heartbeat import Heartbeat
from orbit_django.worker.held import Held
from orbit_django.worker.loop import PollLoop, Rooms
from orbit_django.worker.parking import Parking
from orbit_django.worker.patience import Patience
from orbit_django.worker.probes.health import Health
from orbit_django.worker.probes.health import Rooms as Watched
from orbit_django.worker.relay import Relay, Sender
from orbit_django.worker.runner import Loop, LoopThread, NudgedLoop
from orbit_django.worker.session import SessionHolder
from orbit_django.worker.starter import Bystander, Starter
from orbit_django.worker.stops import StopRequests, watching_signals
from orbit_django.worker.vitals import Vitals

logger = SteadyLogger(logging.getLogger(__name__))

DELIVER_SECONDS = 5.0  # how long undelivered results hold up the end
HASTY_SECONDS = 2.0  # how long handlers get after a second signal
BEAT_SECONDS = 1.0  # how long a heartbeat on its way holds up the end
LOOK_SECONDS = 0.1


class Worker:
    """One process's work for one runtime; ``run`` returns the exit code."""

    def __init__(
        self,
        settings: OrbitSettings,
        tasks: Sequence[Task],
        transport: Transport,
        clock: Clock | None = None,
        how: RunOptions = RunOptions(),  # noqa: B008  (it is frozen)
    ) -> None:
        self._settings = settings
        self._is_burst = how.burst
        self._allowance = Allowance(how.max_tasks)
        self._clock = clock or SystemClock()
        self._transport = transport
        self._stop = threading.Event()  # no new work
        self._halt = threading.Event()  # no patience either
        self._end = threading.Event()  # the helpers' loops end
        self._nudge = threading.Event()  # the relay has something to look at
        self.stops = StopRequests()
        self.vitals = Vitals(self._clock)
        self.refusal: RefusedError | None = None  # why the runtime did not let this worker in
        self._aliases = aliases_of(settings, tasks)
        self._held = Held()
        self._gate = DatabaseGate()
        self._claims = Claims(settings.claim_seconds)
        self._session = self._holder(tasks)
        self._pulses = self._heartbeats()
        self._relay = self._sending()
        self._executions = Executions(settings) if settings.may_start else None
        self._starts = self._starter()
        self._loops = self._polls(tasks)
        self._burst = Burst(self._loops, self._held, self._is_anything_owed, self._clock) if how.burst else None
        self.health = Health(
            self.vitals,
            Watched(self._session, self._gate, self._held, self._stop, self._end),
            wait_ms=settings.poll_wait_ms,
            is_queued=is_queued,
        )
        self._names = ", ".join(f"{task.contract.task_name} {task.contract.contract_version}" for task in tasks)

    def run(self) -> int:
        """Work until told to stop: 0 after an orderly end, 1 after a hasty one, 2 when the runtime says no.

        A burst that nobody answered ends in order, and with 1 all the same.
        """
        with redacting(self._settings.redact), watching_signals(self.stop), preparing(self._aliases):
            helpers = [*self._pulses, *map(self._thread, self._side_rooms())]
            polls = [*map(self._thread, self._loops)]
            for thread in (*helpers, *polls):
                thread.start()
            self.health.watch(polls, helpers)
            about = {"worker": self._settings.worker_name(), "server": self._settings.reports_to, "tasks": self._names}
            logger.info("the worker started", extra=about)
            while not self._is_over():
                self._stop.wait(LOOK_SECONDS)
            return self._finish()

    def stop(self) -> None:
        """Ask for an orderly end; a second time, for a hasty one."""
        self.stops.signalled()

    def _is_over(self) -> bool:
        if self._allowance.is_spent:
            logger.info("the worker has received as many tasks as --max-tasks allows")
            return True
        return bool(self.stops.level) or self.refusal is not None or self._burst_code() is not None

    def _burst_code(self) -> int | None:
        return self._burst.code if self._burst is not None else None

    def _holder(self, tasks: Sequence[Task]) -> SessionHolder:
        holder = SessionHolder(
            self._transport,
            _registration(self._settings, tasks),
            held=self._held,
            clock=self._clock,
            stop=self._stop,
            on_refused=self._turned_away,
        )
        holder.credential_source = self._settings.credential_source
        return holder

    def _heartbeats(self) -> list[LoopThread]:
        rooms = (self._transport, self._session, self._held, self._clock)
        numbers = range(1, deliveries_of(self._transport).keepers + 1)
        return [self._thread(Heartbeat(*rooms, vitals=self.vitals, number=number)) for number in numbers]

    def _sending(self) -> Relay:
        settings = self._settings
        return Relay(
            self._transport,
            Origin(settings.worker_name(), settings.reports_to, self._transport.name),
            self._aliases,
            clock=self._clock,
            gate=self._gate,
            redact=settings.redact,
            identity=lambda: settings.identity,
            on_due=self._nudge.set,
            is_admitted=self._has_asked,
            vitals=self.vitals,
        )

    def _polls(self, tasks: Sequence[Task]) -> list[PollLoop]:
        settings = self._settings
        patience = Patience(self._clock, self._gate, stop=self._stop, halt=self._halt)
        rooms = Rooms(
            transport=self._transport,
            session=self._session,
            executor=Executor(
                settings,
                {task.contract: task for task in tasks},
                claims=self._claims,
                patience=patience,
                vitals=self.vitals,
                check_report=checker_of(self._transport),
            ),
            relay=self._relay,
            parking=Parking(settings.concurrency, self._clock, self._stop, self._held.running),
            held=self._held,
            gate=self._gate,
            clock=self._clock,
            stop=self._stop,
            worker_id=settings.worker_name(),
            concurrency=settings.concurrency,
            wait_ms=min(settings.poll_wait_ms, burst.WAIT_MS) if self._is_burst else settings.poll_wait_ms,
            allowance=self._allowance,
            vitals=self.vitals,
        )
        return [PollLoop(rooms, number) for number in range(1, settings.concurrency + 1)]

    def _thread(self, loop: Loop) -> LoopThread:
        return LoopThread(loop, self._end, self._clock)

    def _side_rooms(self) -> Iterable[Loop]:
        yield self._claims
        yield NudgedLoop(self._relay, self._nudge)
        yield self._relay.filing
        yield from (Sender(self._relay, number) for number in range(1, self._relay.senders + 1))
        yield self._starts
        if self._burst is not None:
            yield self._burst

    def _starter(self) -> Starter | Bystander:
        if self._executions is None:
            return Bystander(self._aliases, gate=self._gate)
        return Starter(
            self._executions,
            self._aliases,
            gate=self._gate,
            redact=self._settings.redact,
            is_admitted=self._has_asked,
        )

    def _has_asked(self) -> bool:
        """Return whether more than a registration may be sent: one that is refused ends the worker with one line."""
        return self._session.has_asked

    def _turned_away(self, error: RefusedError) -> None:
        self.refusal = error
        self._stop.set()

    def _finish(self) -> int:
        self._stop.set()
        if self.refusal is not None:
            self._end.set()
            return 2
        logger.info("the worker stops; running handlers end first", extra={"held": len(self._held)})
        while not deliveries_of(self._transport).stop_polls(LOOK_SECONDS) and not self._is_hasty():
            pass  # what is on its way is taken, or it would be lost with the process
        code = (self._burst_code() or 0) if self._drain() else self._hurry()
        self._end.set()
        self._nudge.set()  # those that wait for something else see the end as well
        self._relay.filing.wake()
        for pulse in self._pulses:
            pulse.join(BEAT_SECONDS)  # a beat must not follow the session's end
        self._session.close()
        self._transport.close()
        if self._executions is not None:
            self._executions.close()
        connections.close_all()
        logger.info("the worker ended", extra={"exit_code": code})
        return code

    def _drain(self) -> bool:
        """Let handlers end and results go out; return False when there is no time for it."""
        limit = self._settings.drain_timeout
        deadline = None if limit is None else self._clock.monotonic() + limit
        while not self._held.close_when_empty(LOOK_SECONDS):
            if self._is_hasty() or (deadline is not None and self._clock.monotonic() >= deadline):
                return False
        deadline = self._clock.monotonic() + DELIVER_SECONDS
        look = threading.Thread(target=self._wait_until_delivered, name="orbit-last-look", daemon=True)
        look.start()
        while look.is_alive() and not self._is_hasty() and self._clock.monotonic() < deadline:
            look.join(LOOK_SECONDS)
        return not self._is_hasty()

    def _wait_until_delivered(self) -> None:
        """Return when nothing is owed; not in the main thread, which a database that hangs would make deaf."""
        try:
            while self._is_owed() and not self._end.wait(LOOK_SECONDS):
                pass
        finally:
            connections.close_all()

    def _hurry(self) -> int:
        """Tell the handlers to stop and give them a moment; what they do not finish is delivered again."""
        logger.warning("the worker ends at once", extra={"held": len(self._held)})
        self._halt.set()
        self._held.cancel_all()
        self._held.close_when_empty(HASTY_SECONDS)
        return 1

    def _is_hasty(self) -> bool:
        return self.stops.level > 1

    def _is_anything_owed(self) -> bool:
        return self._relay.has_sendable() or self._starts.has_pending()

    def _is_owed(self) -> bool:
        if not self._gate.is_open:
            return False
        try:
            return self._relay.has_pending()
        except (DatabaseError, InterfaceError):
            return False


def _registration(settings: OrbitSettings, tasks: Sequence[Task]) -> Registration:
    contracts = tuple(task.contract for task in tasks)
    return Registration(settings.worker_name(), settings.runtime, contracts, SDK)


def aliases_of(settings: OrbitSettings, tasks: Iterable[Task]) -> tuple[str, ...]:
    """Return every database alias that these tasks keep records in."""
    return tuple(sorted({settings.database, *(task.using for task in tasks if task.using)}, key=str))

"""The starter: sends the starts that transactions asked for, until the runtime answers.

It speaks HTTP with the admin token, whatever binding and credential the worker uses. A start is taken and sent on
its own, so that it is held no longer than a call takes; how often it is sent makes no difference to the runtime.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from django.db import DatabaseError, InterfaceError

from orbit_django import starts
from orbit_django.exceptions import ConfigurationError, NoAnswerError, RefusedError
from orbit_django.logs import SteadyLogger
from orbit_django.starts import HeldStart
from orbit_django.transports.executions import NOT_ADMITTED, Executions, advice_for, start_body
from orbit_django.worker import housekeeping
from orbit_django.worker.gate import DatabaseGate
from orbit_django.worker.runner import Backoff, delay_after

logger = SteadyLogger(logging.getLogger(__name__))

CALL_SECONDS = 10.0  # less than a sender's hold
LOOK_SECONDS = 2.0  # an idle starter asks the database this often; with the looks of the relay less than once a second
BYSTANDER_SECONDS = 60.0  # without the admin token nothing is sent, and people are told soon enough
PASSING_STATUSES = (408, 425, 429)  # refusals that time heals
LOGGED_TRIES = (1, 10, 100, 1000)


class Starter:
    """Delivery of starts; ``step`` sends at most one of each alias."""

    name = "starter"

    def __init__(
        self,
        executions: Executions,
        aliases: Iterable[str],
        *,
        gate: DatabaseGate,
        redact: Callable[[str], str],
        is_admitted: Callable[[], bool] = lambda: True,
    ) -> None:
        self._executions = executions
        self._aliases = tuple(aliases)
        self._gate = gate
        self._redact = redact
        self._is_admitted = is_admitted  # whether the runtime may have let this worker in
        self._fresh = set(self._aliases)  # aliases whose blocked starts were not tried yet
        self._trouble = Backoff()  # of the runtime, so that it is not asked once for each start

    def step(self) -> float:
        """Send what is due; return the seconds until the next look."""
        if not self._is_admitted() or not self._gate.is_open:  # the relay opens it again
            return LOOK_SECONDS
        housekeeping.before_task()
        wait = LOOK_SECONDS
        for using in self._aliases:
            try:
                for start in self._take(using):
                    wait = self.deliver(start)
            except (DatabaseError, InterfaceError) as error:
                _lost(using, error)
                wait = LOOK_SECONDS
        return wait

    def has_pending(self) -> bool:
        """Return whether starts have no answer yet, held ones included."""
        return any(starts.pending_count(using) for using in self._aliases)

    def deliver(self, start: HeldStart) -> float:
        """Send a start once and file what came of it; return the seconds until the runtime may be asked again."""
        try:
            is_new = self._send(start)
        except (NoAnswerError, ConfigurationError) as error:  # the latter: it wants the admin token, and there is none
            return self._put_off(start, error)
        except RefusedError as error:
            return self._put_off(start, error) if error.status in PASSING_STATUSES else self._refused(start, error)
        logger.info("a workflow was started", extra=_about(start, is_new=is_new))
        starts.settle(start)
        return self._go_on()

    def _take(self, using: str) -> list[HeldStart]:
        if using in self._fresh:
            starts.unblock(using)
            self._fresh.discard(using)
        return starts.claim_due(using, 1)

    def _send(self, start: HeldStart) -> object:
        """Return whether the execution is new; whatever does not name it is no answer of a runtime."""
        body = start_body(start.workflow, start.input, start.execution_id)
        answer = self._executions.start(body, total_seconds=CALL_SECONDS)
        if answer.get("execution_id") != start.execution_id:
            raise NoAnswerError("the answer does not name the execution that was to be started")
        return answer.get("created")

    def _put_off(self, start: HeldStart, error: Exception) -> float:
        text = self._redact(str(error))
        if start.tries in LOGGED_TRIES:
            logger.warning("the start of a workflow got no answer", extra=_about(start, error=text))
        starts.postpone(start, delay_after(start.tries), text)
        return self._trouble.next()

    def _refused(self, start: HeldStart, error: RefusedError) -> float:
        text = self._redact(str(error))
        is_about_start = error.is_from_runtime and error.status >= 400 and error.status not in NOT_ADMITTED
        advice = {"advice": found} if (found := advice_for(error)) else {}
        extra = _about(start, error=text, is_final=is_about_start, **advice)
        logger.error("the start of a workflow was refused", extra=extra)
        if is_about_start:
            starts.refuse(start, error, text)
            return self._go_on()
        starts.block(start, error, text)
        return self._trouble.next()

    def _go_on(self) -> float:
        self._trouble.reset()
        return 0.0


class Bystander:
    """What a process without TOKEN does about starts: it warns of those that wait, and leaves them alone."""

    name = "starter"

    def __init__(self, aliases: Iterable[str], *, gate: DatabaseGate) -> None:
        self._aliases = sorted(aliases)
        self._waiting: set[str] = set()  # aliases of which was warned
        self._gate = gate

    def has_pending(self) -> bool:
        """Return False: whatever waits, it waits for another process."""
        return False

    def step(self) -> float:
        """Look at each alias now and then; warn once, until none waits any more."""
        if not self._gate.is_open:
            return LOOK_SECONDS
        wait = BYSTANDER_SECONDS
        for using in self._aliases:
            try:
                count = starts.pending_count(using)
            except (DatabaseError, InterfaceError) as error:
                _lost(using, error)
                wait = LOOK_SECONDS
                continue
            housekeeping.discard(using)  # it would idle for longer than some databases let it
            self._tell(using, count)
        return wait

    def _tell(self, using: str, count: int) -> None:
        if not count:
            self._waiting.discard(using)
        elif using not in self._waiting:
            self._waiting.add(using)
            extra = {"alias": using, "waiting": count}
            logger.warning("starts of workflows wait for a process with the admin token: set TOKEN", extra=extra)


def _lost(using: str, error: Exception) -> None:
    """Begin anew with another connection; whether the database is away, the relay finds out."""
    logger.warning("the starts of workflows could not be used", extra={"alias": using, "error": repr(error)})
    housekeeping.discard(using)


def _about(start: HeldStart, **more: object) -> dict[str, object]:
    return {"workflow": start.workflow, "execution": start.execution_id, "tries": start.tries, **more}

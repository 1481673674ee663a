"""``exactly_once``: one task again and again, under redeliveries, duplicates and crashes, and its effect counted.

Nothing here knows how the guarantee is kept: every run goes through the rooms of the worker, as in production.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any
from uuid import uuid4

from orbit_django import conf, effects, idempotency
from orbit_django.models import Effect, IdempotencyRecord, OutboxMessage
from orbit_django.protocol import Assignment, Code
from orbit_django.tasks import Task
from orbit_django.testing.deliveries import (
    assignment_of,
    find_task,
    leaving_no_file,
    need_commits,
    need_database,
    usable_aliases,
    warn_of_input,
)
from orbit_django.testing.lives import Life, Point, Step
from orbit_django.testing.report import TaskReport
from orbit_django.testing.snapshot import Snapshot
from orbit_django.verdicts import Claim
from orbit_django.worker.delivery import Deferred, Result

MEET_SECONDS = 0.3  # how long a handler waits for its duplicate, which waits for it in turn on some databases
TAKE_SECONDS = 15.0
ASK_SECONDS = 0.01
MOST_SETTLED = 50


def exactly_once(
    name: str,
    input: Any = None,
    *,
    count: Callable[[], Any],
    reset: Callable[[], object] = lambda: None,
    **assignment: Any,
) -> None:
    """Assert that a task takes effect exactly once, whatever happens on its way.

    ``count`` returns a number that the effect changes. The task is run once undisturbed, which says by how much; then
    again and again as a new step, with the databases put back to what they were and ``reset`` called for what is
    outside of them: delivered again, delivered twice at once, and with its process ended after each SQL statement and
    at each other point of the way, followed by the redelivery. In the end the task has taken effect once.

    An effect of ``ctx.effect`` that is left uncertain is settled, as by a person, with what ``count`` says.
    ``assignment`` says fields of the deliveries, as for ``run_task``. Raises AssertionError that names the point at
    which the effect was doubled or lost, ConfigurationError in a test that does not commit.
    """
    __tracebackhide__ = True
    task, settings = find_task(name, assignment.get("contract_version")), conf.load()
    using = task.using or settings.database
    need_database("exactly_once", using)
    need_commits("exactly_once", (using,))
    warn_of_input(assignment_of(task, input, assignment), settings.contracts)
    with leaving_no_file([using]):
        Trial(task, settings, partial(assignment_of, task, input), assignment, count, reset).run()


class Trial:
    """One task in every adversity, each in the same world."""

    def __init__(
        self,
        task: Task,
        settings: conf.OrbitSettings,
        assign: Callable[[dict[str, Any]], Assignment],
        said: dict[str, Any],
        count: Callable[[], Any],
        reset: Callable[[], object],
    ) -> None:
        self._task = task
        self._settings = settings
        self._using = task.using or settings.database
        self._assign = assign
        self._said = said
        self._count = count
        self._reset = reset
        self._once: Any = None  # by how much one effect changes the count
        self._results: dict[str, str] = {}  # what the calls of ctx.effect returned, undisturbed
        self._step: dict[str, Any] = {}  # the fields that all deliveries of the present step share
        self._base: Any = None  # the count before it

    def run(self) -> None:
        """Try everything; raise AssertionError at the first effect that was doubled or lost."""
        __tracebackhide__ = True
        world = Snapshot(usable_aliases("exactly_once"))
        undisturbed = self._undisturbed()
        for label, play in self._plays(undisturbed):
            world.restore()
            self._begin()
            self._judge(label, play())

    def _undisturbed(self) -> Life:
        __tracebackhide__ = True
        self._begin()
        life = self._life()
        report = self._report(life.deliver(self._delivery()), "when it was run undisturbed")
        if not report.is_success:
            raise AssertionError(f"{self._name} failed when it was run undisturbed: {_said(report)}")
        self._once = self._count() - self._base
        if not self._once:
            raise AssertionError(
                f"count() returned {self._base!r} before and after {self._name} ran: it counts nothing"
            )
        done = Effect.objects.using(self._using).filter(status=Effect.Status.FINISHED)
        self._results = {name: result or "null" for name, result in done.values_list("name_hash", "result")}
        return life

    def _plays(self, undisturbed: Life) -> Iterator[tuple[str, Callable[[], Result]]]:
        """Yield what can happen, with the words that say when."""
        yield "when it was delivered again after its success", self._delivered_again
        yield "when a duplicate arrived as its handler began", partial(self._duplicated, Step.BEGUN)
        yield "when a duplicate arrived as its handler had returned", partial(self._duplicated, Step.RETURNED)
        for step in Step:
            yield f"when its process ended {step.value}, and it was delivered again", partial(self._crashed, step)
        total = len(undisturbed.statements)
        for number, statement in enumerate(undisturbed.statements, 1):
            where = f"after SQL statement {number} of {total} ({statement})"
            yield f"when its process ended {where}, and it was delivered again", partial(self._crashed, number)

    def _delivered_again(self) -> Result:
        self._life().deliver(self._delivery())
        self._again(self._delivery(redelivery=True))
        return self._again(self._delivery(attempt=self._said.get("attempt", 1) + 1))

    def _crashed(self, point: Point) -> Result:
        self._life(point).deliver(self._delivery())
        return self._again(self._delivery(redelivery=True))

    def _duplicated(self, step: Step) -> Result:
        """Deliver twice at once; the second one comes while the first is at that point."""
        second, twin = self._life(), self._delivery(redelivery=True)

        def meet() -> None:
            second.start(twin)
            second.is_telling.wait(MEET_SECONDS)

        first = Life(self._task, self._settings, at={step: meet})
        first.deliver(self._delivery())
        result = second.join()
        return self._again(twin) if result is Deferred.PARKED else result

    def _again(self, assignment: Assignment) -> Result:
        """Deliver until there is a report, as parking does, and settle what is uncertain, as a person does."""
        for _ in range(MOST_SETTLED):
            result = self._taken(assignment)
            if not isinstance(result, OutboxMessage) or TaskReport.of(result).error_code != Code.EFFECT_UNCERTAIN:
                return result
            self._settle()
            assignment = self._delivery(attempt=assignment.attempt, redelivery=True)
        return result

    def _taken(self, assignment: Assignment) -> Result:
        pause, tries = threading.Event(), int(TAKE_SECONDS / ASK_SECONDS)
        for _ in range(tries):
            self._let_claims_end()
            result = self._life().deliver(assignment)
            if result is not Deferred.PARKED:
                return result
            pause.wait(ASK_SECONDS)
        return Deferred.PARKED

    def _let_claims_end(self) -> None:
        """Have the claims of dead processes end now, instead of when CLAIM_SECONDS have passed."""
        rows = IdempotencyRecord.objects.using(self._using).running().filter(lease_ms__isnull=False)
        claims = [Claim(record, record.owner, self._using, is_leased=True) for record in rows]
        idempotency.extend(claims, -1)

    def _settle(self) -> None:
        has_happened = self._count() != self._base
        for effect in Effect.objects.using(self._using).filter(status=Effect.Status.UNCERTAIN):
            result = self._results.get(effect.name_hash, "null") if has_happened else None
            effects.settle(effect, result=result, settled_by="exactly_once")

    def _begin(self) -> None:
        """Turn to a new step of a new execution."""
        self._reset()
        execution = f"once-{uuid4().hex[:12]}"
        self._step = {"execution_id": execution, "idempotency_key": f"{execution}/step"} | self._said
        self._base = self._count()

    def _delivery(self, **fields: Any) -> Assignment:
        return self._assign(self._step | fields)

    def _life(self, end: Point | None = None) -> Life:
        return Life(self._task, self._settings, end)

    def _judge(self, label: str, result: Result) -> None:
        __tracebackhide__ = True
        change = self._count() - self._base
        if change != self._once:
            word = "lost" if change / self._once < 1 else "doubled"
            raise AssertionError(
                f"{self._name}: the effect was {word} {label}: count() changed by {change}, undisturbed by {self._once}"
            )
        report = self._report(result, label)
        if not report.is_success:
            raise AssertionError(f"{self._name} took effect once, but failed {label}: {_said(report)}")

    def _report(self, result: Result, label: str) -> TaskReport:
        __tracebackhide__ = True
        if not isinstance(result, OutboxMessage):
            raise AssertionError(f"{self._name} brought no report {label}: {result.value}")
        return TaskReport.of(result)

    @property
    def _name(self) -> str:
        return self._task.contract.task_name


def _said(report: TaskReport) -> str:
    return f"{report.error_code}: {report.error_message}"

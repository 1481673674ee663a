"""Deliveries in any order against a model of one record, small enough to be read at a glance."""

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from orbit_django import TaskError, outbox
from orbit_django.models import IdempotencyRecord, OutboxMessage
from orbit_django.worker.delivery import Deferred
from tests.ledger import Desk, charge, sent
from tests.testapp.models import Charge

PLANS = st.sampled_from(["succeed", "fail", "crash", "overtaken"])
INPUTS = st.sampled_from([1, 1, 1, 1, 2])


class DeathError(BaseException):
    """The process ends here, as far as the ledger can tell."""


@dataclass
class Model:
    """What is known about the key."""

    status: str = "absent"  # running (free to be taken), claimed, succeeded, failed
    attempt: int = 0
    amount: int = 0
    rows: int = 0
    has_row: bool = False  # kept by a transaction of its own under this record

    def verdict(self, attempt: int, amount: int) -> str:
        """Say what a delivery must meet with."""
        if self.status != "absent" and amount != self.amount:
            return "conflict"
        if self.status == "succeeded" or (self.status == "failed" and attempt <= self.attempt):
            return self.status
        return "busy" if self.status == "claimed" else "run"


class Deliveries(RuleBasedStateMachine):
    """Deliver, crash, expire and forget, in any order."""

    is_atomic = True

    def __init__(self) -> None:
        super().__init__()
        for table in (OutboxMessage, IdempotencyRecord, Charge):
            table.objects.all().delete()
        self.model = Model()
        self.plan = ""
        self.desk = Desk(self.handler, is_atomic=self.is_atomic, settings={"max_redeliveries": 1_000})

    def handler(self, input: Any, ctx: Any) -> Any:
        """Write a row and do as planned."""
        written = charge(input, ctx) if self.is_atomic else ctx.transaction("row", charge, input, ctx)
        if self.plan == "overtaken":
            self.plan = "crash"
            IdempotencyRecord.objects.update(lease_ms=0)
            self.put_through(ctx.attempt, input["amount"], is_crash=True)
        if self.plan == "fail":
            raise TaskError("PLANNED")
        return written

    @rule(attempt=st.integers(1, 3), plan=PLANS, amount=INPUTS, redelivery=st.booleans())
    def deliver(self, attempt: int, plan: str, amount: int, redelivery: bool) -> None:
        """Put one delivery through and compare what became of it with what the model says.

        Overtaken, its claim ends while it runs, and another one takes the key over without getting anywhere.
        """
        if plan == "overtaken" and self.is_atomic:
            plan = "succeed"  # nobody can take over what an open transaction owns
        self.plan = plan
        wanted = self.model.verdict(attempt, amount)
        runs = self.desk.runs
        result = self.put_through(attempt, amount, redelivery, is_crash=plan == "crash" and wanted == "run")
        assert self.desk.runs - runs == (1 + (plan == "overtaken") if wanted == "run" else 0)
        if wanted == "run":
            self.has_run(plan, attempt, amount, redelivery)
        self.check("busy" if wanted == "run" and plan == "overtaken" else wanted, result)

    @rule()
    def expire(self) -> None:
        """Let a claim end."""
        IdempotencyRecord.objects.filter(status="running").update(lease_ms=0)
        if self.model.status == "claimed":
            self.model.status = "running"

    @rule()
    def forget(self) -> None:
        """Prune the record; what it guarded may happen again."""
        if self.model.status in ("succeeded", "failed"):
            IdempotencyRecord.objects.all().delete()
            self.model = Model(rows=self.model.rows)

    @invariant()
    def nothing_is_doubled_or_lost(self) -> None:
        """Count what is committed."""
        assert Charge.objects.count() == self.model.rows
        statuses = list(IdempotencyRecord.objects.values_list("status", flat=True))
        known = {"absent": [], "claimed": ["running"]}
        assert statuses == known.get(self.model.status, [self.model.status])

    def put_through(self, attempt: int, amount: int, redelivery: bool = False, *, is_crash: bool) -> Any:
        """Deliver; in a crash the process ends right before the outcome is committed."""
        draft = outbox.draft

        def die(*args: Any, **kwargs: Any) -> Any:
            raise DeathError

        outbox.draft = die if is_crash else draft
        try:
            return self.desk.deliver({"amount": amount}, attempt=attempt, redelivery=redelivery)
        except DeathError:
            return None
        finally:
            outbox.draft = draft

    def has_run(self, plan: str, attempt: int, amount: int, redelivery: bool) -> None:
        """Move the model on after a run."""
        model = self.model
        if self.is_atomic:
            model.rows += plan == "succeed"
        else:
            model.rows += not model.has_row
            model.has_row = True
        if plan in ("succeed", "fail"):
            model.status, model.attempt, model.amount = f"{plan}ed", attempt, amount
        elif not self.is_atomic:
            model.status, model.amount = "claimed", amount
        elif redelivery:  # that the run began was committed
            model.status, model.amount = "running", amount

    def check(self, wanted: str, result: Any) -> None:
        """Compare the report with the model."""
        if wanted == "busy":
            assert result is Deferred.PARKED
        elif result is not None:
            body = sent(result)
            status = self.model.status if wanted == "run" else wanted
            if status == "succeeded":
                assert body["output"] == {"amount": self.model.amount}
            else:
                assert body["error_code"] == ("IDEMPOTENCY_CONFLICT" if status == "conflict" else "PLANNED")


class LongDeliveries(Deliveries):
    """The same for a task that is not atomic."""

    is_atomic = False


@pytest.mark.databases
@pytest.mark.django_db(transaction=True)
@pytest.mark.timeout(120)
@pytest.mark.promise("E1", "E2", "E4", "E5")
@pytest.mark.parametrize("machine", [Deliveries, LongDeliveries])
def test_a_record_goes_the_way_of_its_model(machine: type[Deliveries]) -> None:
    checks = [HealthCheck.too_slow, HealthCheck.data_too_large]
    few = settings(max_examples=40, stateful_step_count=15, deadline=None, database=None, suppress_health_check=checks)
    run_state_machine_as_test(machine, settings=few)

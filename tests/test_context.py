import sys
import threading
from datetime import UTC, datetime
from typing import Any

import pytest

from orbit_django.clock import FixedClock, SystemClock
from orbit_django.context import CancelReason, TaskContext
from orbit_django.exceptions import ConfigurationError, TaskCancelled
from orbit_django.protocol import Assignment

ASSIGNMENT = {
    "token": "tok-SECRET-1",
    "execution_id": "e-1",
    "workflow": "Pay",
    "workflow_version": "1.0.0",
    "step_id": "charge",
    "task_name": "shop.pay",
    "contract_version": "2.0.0",
    "input": {"card": "4111"},
    "idempotency_key": "e-1:charge",
    "attempt": 3,
    "redelivery": True,
    "timeout_ms": 5000,
    "deadline_ms": 1_700_000_090_000,
}


class Recorder:
    """Effects that only say what they were asked for."""

    def effect(self, *args: Any, **kwargs: Any) -> Any:
        return "effect", args, kwargs

    def transaction(self, *args: Any, **kwargs: Any) -> Any:
        return "transaction", args, kwargs


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock(wall=1_700_000_000.0)


@pytest.fixture
def make(clock):
    """Return a function that makes a context; its arguments replace fields of the assignment."""

    def make_context(effects: Recorder | None = None, **changes: Any) -> TaskContext:
        return TaskContext(Assignment(**(ASSIGNMENT | changes)), worker_id="shop-1", clock=clock, effects=effects)

    return make_context


def test_a_handler_sees_every_field_of_its_delivery(make) -> None:
    context = make()
    fields = [name for name in ASSIGNMENT if name not in ("input", "deadline_ms")]
    assert {name: getattr(context, name) for name in fields} == {name: ASSIGNMENT[name] for name in fields}
    assert context.worker_id == "shop-1"


@pytest.mark.promise("W9")
def test_token_and_input_are_not_in_the_repr(make) -> None:
    assert repr(make()) == "<TaskContext shop.pay e-1/charge attempt 3>"


@pytest.mark.promise("W4")
def test_the_timeout_counts_from_the_receipt_whatever_the_wall_clock_says(make, clock) -> None:
    context = make()
    clock.now += 7200
    assert (context.remaining_ms, context.is_cancelled) == (5000, False)
    clock.ticks += 4.5
    assert (context.remaining_ms, context.is_cancelled) == (500, False)
    clock.ticks += 0.5
    assert (context.remaining_ms, context.is_cancelled) == (0, True)
    assert context.cancelled.reason is CancelReason.DEADLINE


@pytest.mark.promise("W4")
def test_a_deadline_that_comes_alone_is_taken_from_the_wall_clock_once(make, clock) -> None:
    context = make(timeout_ms=None)
    assert context.remaining_ms == 90_000
    clock.now -= 7200
    assert context.remaining_ms == 90_000
    clock.advance(91)
    assert context.is_cancelled


@pytest.mark.promise("W4")
def test_without_a_deadline_nothing_ends_by_itself(make, clock) -> None:
    context = make(timeout_ms=None, deadline_ms=None)
    clock.advance(10**9)
    assert (context.remaining_ms, context.deadline, context.is_cancelled) == (None, None, False)


@pytest.mark.parametrize("late", [{"timeout_ms": 0}, {"timeout_ms": -5}, {"timeout_ms": None, "deadline_ms": 0}])
def test_a_deadline_in_the_past_leaves_nothing_and_never_less(make, late) -> None:
    assert (make(**late).remaining_ms, make(**late).is_cancelled) == (0, True)


@pytest.mark.parametrize(
    ("milliseconds", "deadline"),
    [
        (1_700_000_090_500, datetime(2023, 11, 14, 22, 14, 50, 500_000, tzinfo=UTC)),
        (2**63 - 1, datetime.max.replace(tzinfo=UTC)),
        (-(2**63), datetime.min.replace(tzinfo=UTC)),
    ],
)
def test_a_deadline_is_an_aware_time_whatever_was_sent(make, milliseconds, deadline) -> None:
    assert make(deadline_ms=milliseconds).deadline == deadline


@pytest.mark.parametrize("huge", [{"timeout_ms": 2**63 - 1}, {"timeout_ms": None, "deadline_ms": 2**63 - 1}])
def test_a_huge_timeout_can_be_waited_for(make, huge) -> None:
    context = make(**huge)
    threading.Timer(0.01, context.cancelled.cancel, [CancelReason.RUNTIME]).start()
    assert context.cancelled.wait(sys.float_info.max)
    assert context.cancelled.reason is CancelReason.RUNTIME


@pytest.mark.promise("W4")
def test_a_cancelled_handler_stops_where_it_asks(make) -> None:
    context = make()
    context.raise_if_cancelled()
    context.cancelled.cancel(CancelReason.RUNTIME)
    assert context.is_cancelled
    with pytest.raises(TaskCancelled, match="cancelled by the runtime"):
        context.raise_if_cancelled()


@pytest.mark.promise("W4")
def test_the_first_reason_stays(make, clock) -> None:
    context = make()
    context.cancelled.cancel(CancelReason.SHUTDOWN)
    context.cancelled.cancel(CancelReason.RUNTIME)
    clock.advance(6)
    assert context.is_cancelled
    assert context.cancelled.reason is CancelReason.SHUTDOWN


@pytest.mark.promise("W4")
def test_sleep_ends_at_once_when_the_handler_should_stop(make, clock) -> None:
    context = make()
    assert context.sleep(0) is True
    assert context.sleep(-1) is True
    clock.advance(6)
    assert context.sleep(3600) is False


@pytest.mark.promise("W4")
def test_sleep_is_woken_by_a_cancellation(make) -> None:
    context = make(timeout_ms=None)
    threading.Timer(0.01, context.cancelled.cancel, [CancelReason.RUNTIME]).start()
    assert context.sleep(3600) is False


@pytest.mark.promise("W4")
def test_sleep_never_goes_beyond_the_deadline() -> None:
    assignment = Assignment(**(ASSIGNMENT | {"timeout_ms": 20}))
    context = TaskContext(assignment, worker_id="shop-1", clock=SystemClock())
    assert context.sleep(3600) is False
    assert context.cancelled.reason is CancelReason.DEADLINE


def test_the_flag_is_an_event(make) -> None:
    assert isinstance(make().cancelled, threading.Event)


@pytest.mark.promise("E10")
def test_effects_and_transactions_are_handed_on(make) -> None:
    context = make(Recorder())
    assert context.effect("mail", print, 1, name="x") == ("effect", ("mail", print, 1), {"name": "x"})
    assert context.transaction("row", print, function=2) == ("transaction", ("row", print), {"function": 2})


@pytest.mark.parametrize("what", ["effect", "transaction"])
@pytest.mark.promise("E10")
def test_an_atomic_task_is_told_to_do_without(make, what: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"ctx\.{what} needs a task with atomic=False: shop\.pay"):
        getattr(make(), what)("mail", print)


@pytest.mark.promise("E10")
def test_an_effect_has_one_key_in_every_delivery_of_its_step(make) -> None:
    later = make(token="other", attempt=9, execution_id="e-2", contract_version="3")
    assert make().effect_key("mail") == later.effect_key("mail")


@pytest.mark.parametrize(
    "change",
    [{"idempotency_key": "other"}, {"task_name": "other"}, {"step_id": "compensate:charge"}],
)
@pytest.mark.promise("E10")
def test_another_step_has_other_effect_keys(make, change) -> None:
    assert make(**change).effect_key("mail") != make().effect_key("mail")
    assert make().effect_key("mail") != make().effect_key("mai")


def test_records_of_the_handler_name_the_delivery_and_no_secret(make, caplog) -> None:
    make().logger.warning("paid %s", 5, extra={"amount": 5, "attempt": "mine"})
    (record,) = caplog.records
    assert record.getMessage() == "paid 5"
    assert (record.execution, record.step, record.task, record.attempt) == ("e-1", "charge", "shop.pay", "mine")
    assert record.amount == 5
    assert "SECRET" not in str(vars(record))

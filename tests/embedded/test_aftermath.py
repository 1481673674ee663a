"""What follows a bad end: compensations and the steps of handlers."""

from dataclasses import replace
from pathlib import Path

import pytest

from orbit_django.contracts import Reference
from orbit_django.embedded.store import SqliteStore
from tests.embedded.shop import CLOSE, SHOP, TELL, Shop
from tests.embedded.test_runtime import ACCEPTED, DUPLICATE, UNKNOWN


def failed(**changed: object) -> Shop:
    """Return a shop whose last step has failed after everything else had succeeded."""
    shop = Shop(**changed)
    shop.pack("a", "b")
    shop.charge()
    shop.fail(shop.tasks()["send"]["token"], "LOST", retryable=False)
    return shop


def only(shop: Shop, name: str) -> dict:
    """Return the one task that is there."""
    tasks = shop.tasks()
    assert list(tasks) == [name]
    return tasks[name]


def test_successes_are_undone_the_newest_first_one_after_another() -> None:
    shop = failed()
    refund = only(shop, "compensate:charge")
    assert (refund["input"], refund["idempotency_key"]) == ({"charge": "c-1"}, "refund-1")
    assert shop.execution().status == "RUNNING"
    shop.done(refund)
    unpack = only(shop, "compensate:pack[1]")
    assert unpack["input"] == {"box": "box of pack[1]", "sku": "b"}
    assert unpack["idempotency_key"] == "e-1/compensate:pack[1]"
    shop.done(unpack)
    shop.done(only(shop, "compensate:pack[0]"))

    assert shop.units("CompensationStarted") == ["charge", "pack[1]", "pack[0]"]
    assert shop.units("CompensationCompleted") == ["charge", "pack[1]", "pack[0]"]


def test_the_steps_of_the_handler_follow() -> None:
    shop = failed()
    for name in ("compensate:charge", "compensate:pack[1]", "compensate:pack[0]"):
        shop.done(only(shop, name))
    tell = only(shop, "on_failure:tell")
    assert tell["input"] == {"why": "failure", "what": "LOST"}
    assert tell["idempotency_key"] == "e-1/on_failure:tell"
    shop.done(tell, told="Ada")
    close = only(shop, "on_failure:close")
    assert close["input"] == {"told": "Ada"}
    assert shop.execution().status == "RUNNING"
    shop.done(close)

    assert shop.status() == ("FAILED", "LOST")
    assert shop.events()[-1] == "WorkflowFailed"
    assert shop.runtime.complete(close["token"]) == UNKNOWN


def test_a_compensation_retries_and_is_delivered_again_like_any_step() -> None:
    shop = failed(on_failure=())
    shop.done(only(shop, "compensate:charge"))
    first = only(shop, "compensate:pack[1]")
    shop.fail(first["token"])
    shop.passes(1)
    second = only(shop, "compensate:pack[1]")
    assert (second["attempt"], second["redelivery"]) == (2, False)
    shop.runtime.unregister(shop.worker)
    shop.worker = shop.session("w-2", "python", ("shop.unpack", "1"))
    third = only(shop, "compensate:pack[1]")

    assert (third["attempt"], third["redelivery"]) == (2, True)
    assert shop.runtime.complete(second["token"]) == ACCEPTED
    assert shop.runtime.complete(third["token"]) == DUPLICATE


def test_a_failed_compensation_does_not_hold_up_the_others() -> None:
    shop = failed(on_failure=())
    shop.fail(only(shop, "compensate:charge")["token"], "BANK", retryable=False)
    shop.done(only(shop, "compensate:pack[1]"))
    shop.passes(1)
    late = only(shop, "compensate:pack[0]")
    shop.passes(5)
    assert shop.runtime.heartbeat(shop.worker)["cancel"] == [late["token"]], "it has a timeout of its own"
    shop.passes(1)
    shop.done(only(shop, "compensate:pack[0]"))

    assert shop.units("CompensationFailed") == ["charge"]
    assert shop.status() == ("FAILED", "LOST")


def test_the_error_stays_when_a_handler_fails() -> None:
    shop = Shop()
    shop.order("a")
    shop.fail(only(shop, "pack[0]")["token"], "BROKEN", retryable=False)
    shop.fail(only(shop, "on_failure:tell")["token"], "MUTE", retryable=False)

    assert shop.tasks() == {}
    assert shop.status() == ("FAILED", "BROKEN")
    assert "on_failure:close" not in shop.execution().steps


def test_a_handler_step_that_cannot_begin_ends_the_handler() -> None:
    shop = Shop(on_failure=(replace(CLOSE, arguments={"told": Reference.to("charge.charge")}), TELL))
    shop.order("a")
    shop.fail(only(shop, "pack[0]")["token"], "BROKEN", retryable=False)

    assert shop.tasks() == {}, "without a charge there is nothing to close, and then nothing to tell"
    assert shop.execution().steps["on_failure:close"].error["code"] == "EXPRESSION_ERROR"
    assert shop.status() == ("FAILED", "BROKEN")


def test_a_compensation_that_cannot_begin_has_failed() -> None:
    (pack, charge, send) = SHOP.steps
    undo = replace(charge.compensation, arguments={"charge": Reference.to("send.missing")})
    send = replace(send, task_name="shop.other")
    shop = Shop(on_cancel=(), steps=(pack, replace(charge, compensation=undo), send))
    shop.order("a")
    shop.done(only(shop, "pack[0]"), box="A")
    shop.charge()
    shop.runtime.cancel("e-1")
    shop.done(only(shop, "compensate:pack[0]"))

    assert shop.units("CompensationFailed") == ["charge"]
    assert shop.status() == ("CANCELLED", "CANCELLED")


def test_a_late_success_of_a_cancelled_execution_is_undone() -> None:
    shop = Shop()
    shop.order("a")
    task = only(shop, "pack[0]")
    shop.runtime.cancel("e-1", "no more")
    assert shop.runtime.complete(task["token"], {"box": "A"}) == ACCEPTED
    shop.done(only(shop, "compensate:pack[0]"))
    tell = only(shop, "on_cancel:tell")
    assert tell["input"] == {"why": "cancel", "what": "CANCELLED"}
    shop.done(tell, told="x")

    assert shop.status() == ("CANCELLED", "CANCELLED")
    assert shop.execution().error["message"] == "no more"


def test_a_workflow_that_takes_too_long() -> None:
    shop = Shop(timeout_ms=3_000)
    shop.order("a")
    task = only(shop, "pack[0]")
    shop.passes(2.9)
    assert shop.runtime.heartbeat(shop.worker)["cancel"] == []
    shop.passes(0.1)
    assert shop.runtime.heartbeat(shop.worker)["cancel"] == [task["token"]]
    shop.fail(task["token"])
    tell = only(shop, "on_timeout:tell")
    assert tell["input"] == {"why": "timeout", "what": "WORKFLOW_TIMEOUT"}
    shop.done(tell, told="x")

    assert shop.status() == ("TIMED_OUT", "WORKFLOW_TIMEOUT")
    assert [kind for kind in shop.events() if kind.startswith("Workflow")] == [
        "WorkflowStarted",
        "WorkflowTimeoutReached",
        "WorkflowTimedOut",
    ]


def test_a_workflow_that_is_done_in_time_does_not_time_out() -> None:
    shop = Shop(timeout_ms=3_000)
    shop.order()
    shop.charge()
    shop.done(only(shop, "send"))
    shop.passes(4)

    assert "WorkflowTimeoutReached" not in shop.events()


@pytest.mark.parametrize("state", ["in flight", "queued", "delayed"])
def test_a_restart_during_a_compensation(tmp_path: Path, state: str) -> None:
    shop = failed(store=SqliteStore(tmp_path / "state.db"), on_failure=(), timeout_ms=60_000)
    shop.done(only(shop, "compensate:charge"))
    if state != "queued":
        task = only(shop, "compensate:pack[1]")
        if state == "delayed":
            shop.fail(task["token"])
    shop.again()
    shop.passes(6)
    shop.passes(1)  # in flight, it had timed out, and its retry is due by now
    shop.worker = shop.session("w-3", "python", ("shop.unpack", "1"))
    shop.done(only(shop, "compensate:pack[1]"))
    shop.done(only(shop, "compensate:pack[0]"))

    assert shop.status() == ("FAILED", "LOST")
    assert shop.units("CompensationStarted") == ["charge", "pack[1]", "pack[0]"]
    shop.store.close()


def test_a_step_that_no_worker_takes_in_time() -> None:
    shop = Shop(on_failure=())
    shop.order()
    shop.charge()
    shop.passes(3.9)
    assert shop.execution().steps["send"].status == "QUEUED"
    shop.passes(0.1)
    shop.done(only(shop, "compensate:charge"))

    assert shop.execution().error == {
        "code": "QUEUE_TIMEOUT",
        "message": "step `send` failed: no worker took `shop.send` within 4000 ms",
    }
    assert shop.tasks() == {}


def test_a_step_that_was_taken_in_time_does_not_expire() -> None:
    shop = Shop()
    shop.order()
    shop.charge()
    task = only(shop, "send")
    shop.passes(5)

    assert shop.runtime.complete(task["token"]) == ACCEPTED
    assert shop.status() == ("COMPLETED", None)


def test_the_time_in_line_goes_on_over_a_restart(tmp_path: Path) -> None:
    shop = Shop(store=SqliteStore(tmp_path / "state.db"), on_failure=())
    shop.order()
    shop.charge()
    shop.passes(3)
    shop.again()
    shop.passes(1)

    assert shop.execution().steps["send"].status == "FAILED"
    shop.store.close()

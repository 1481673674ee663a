"""Tasks that come more than once: what is run again, what is replayed, and which token is answered."""

import signal
import threading
from uuid import uuid4

import pytest

from orbit_django import TaskError
from tests.conformance.observer import hold, unavailable
from tests.conformance.scene import Scene
from tests.conformance.table import check
from tests.processes import wait_for
from tests.testapp.models import Charge


def charge(input, ctx):
    """Write the row that is counted, and return what no second run could."""
    row = Charge.objects.create(key=ctx.idempotency_key, attempt=ctx.attempt)
    return {"paid": f"row {row.pk}"}


@check("A retry runs the handler again, under a higher number, another token and the same key", "O105", "O213", "O321")
def test_retry(scene: Scene) -> None:
    seen = []

    def pay(input, ctx):
        seen.append((ctx.attempt, ctx.redelivery, ctx.idempotency_key, ctx.token))
        if ctx.attempt < 3:
            raise TaskError("BUSY")
        return {"paid": "at last"}

    scene.start("again", "PayAgain")
    scene.work(pay)
    assert scene.end_of("again")["output"] == {"paid": "at last"}
    assert [number for number, *_ in seen] == [1, 2, 3]
    assert {flag for _, flag, *_ in seen} == {False}
    assert len({key for *_, key, _ in seen}) == 1
    assert [call.fields["token"] for call in scene.reports()] == [token for *_, token in seen]


@check("A task whose effect is on record is not run again: the stored output goes out under the new token",
       "O008", "O066", "O077", "O153", "O319")  # fmt: skip
@pytest.mark.databases
@pytest.mark.promise("E2")
@pytest.mark.parametrize("again", [{"redelivery": True}, {"attempt": 2}, {}], ids=["redelivery", "retry", "unmarked"])
def test_replay(scene: Scene, again: dict) -> None:
    scene.deliver("first", idempotency_key="one")
    scene.work(charge)
    first = scene.report("first")
    scene.deliver("second", idempotency_key="one", **again)
    second = scene.report("second")
    assert (second.name, second.fields["output"]) == ("complete", first.fields["output"])
    assert Charge.objects.count() == 1


@check("The output that is replayed has the same bytes", "O153", only="http")
@pytest.mark.promise("E2")
def test_replayed_bytes(scene: Scene) -> None:
    scene.deliver("1st", idempotency_key="one")
    scene.work(lambda input: {"z": 1.50, "a": "ü", "n": 10**20, "list": [1, {"b": None}], "run": uuid4().hex})
    first = scene.report("1st")
    scene.deliver("2nd", idempotency_key="one", redelivery=True)
    assert first.wire.body.replace(b"1st", b"2nd") == scene.report("2nd").wire.body


@check("Two deliveries of one key at once: one runs, both tokens get its success, and being busy is never a failure",
       "O131", "O320")  # fmt: skip
@pytest.mark.databases
@pytest.mark.promise("E3")
@pytest.mark.parametrize("atomic", [True, False])
def test_at_once(scene: Scene, atomic: bool) -> None:
    def pay(input, ctx):
        threading.Event().wait(1)
        return charge(input, ctx)

    scene.handle(pay, atomic=atomic)
    scene.deliver("first", idempotency_key="one")
    scene.deliver("second", idempotency_key="one", redelivery=True)
    scene.work()
    first, second = scene.report("first"), scene.report("second")
    assert [first.name, second.name] == ["complete", "complete"]
    assert first.fields["output"] == second.fields["output"]
    assert Charge.objects.count() == 1
    assert len(scene.reports()) == 2


@check("A failure is replayed for its own attempt; a higher attempt runs the handler", "O105", "O321")
@pytest.mark.promise("E4")
def test_replayed_failure(scene: Scene) -> None:
    seen = []

    def pay(input, ctx):
        seen.append(ctx.token)
        raise TaskError("BUSY", f"said in {ctx.token}")

    scene.deliver("1st", idempotency_key="one")
    scene.work(pay)
    assert scene.report("1st").fields["error_code"] == "BUSY"
    scene.deliver("same", idempotency_key="one", redelivery=True)
    assert scene.report("same").fields["error_message"] == scene.report("1st").fields["error_message"]
    scene.deliver("next", idempotency_key="one", attempt=2)
    assert scene.report("next").name == "fail"
    assert seen == ["1st", "next"]


@check("A result that could not be delivered yet answers the next attempt too, and is delivered still", "O322")
@pytest.mark.databases
@pytest.mark.promise("D1", "E2")
def test_undelivered(scene: Scene) -> None:
    scene.script("complete", *[unavailable] * 3)
    scene.deliver("first", idempotency_key="one")
    scene.work(charge)
    wait_for(scene.reports)
    scene.deliver("second", idempotency_key="one", attempt=2)
    for token in ("first", "second"):
        wait_for(lambda token=token: [call for call in scene.reports(token) if call.status == 200])
    assert {call.name for call in scene.reports()} == {"complete"}
    assert Charge.objects.count() == 1


@check("One key of two tasks, or of a step and its compensation, is two keys; another version of a task is a conflict",
       "O075", "O318")  # fmt: skip
@pytest.mark.promise("E5")
def test_scope(scene: Scene) -> None:
    for name, version in (("shop.pay", "1.0.0"), ("shop.pay", "2.0.0"), ("shop.ship", "1.0.0")):
        scene.handle(charge, name, version)
    given = {"step": {}, "task": {"task_name": "shop.ship"}, "undo": {"step_id": "compensate:pay"},
             "plan b": {"step_id": "on_failure:pay"}}  # fmt: skip
    for token, fields in given.items():
        scene.deliver(token, idempotency_key="one", **fields)
    scene.work()
    assert [scene.report(token).name for token in given] == ["complete"] * 4
    assert Charge.objects.count() == 4
    scene.deliver("version", idempotency_key="one", contract_version="2.0.0")
    said = scene.report("version").fields
    assert (said["error_code"], said["retryable"]) == ("IDEMPOTENCY_CONFLICT", False)
    assert Charge.objects.count() == 4


@check("A failure of an older delivery is sent, and either answer to it is final", "O123", "O127", "O214", "O315")
def test_stale_failure(scene: Scene) -> None:
    go_on = threading.Event()

    def pay(input, ctx):
        if ctx.attempt == 1:
            go_on.wait(20)
            raise TaskError("TOO_LATE")
        threading.Event().wait(1)
        return {"paid": "by the second"}

    scene.handle(pay, atomic=False)
    scene.start("slow", "PayInTime")
    scene.work()
    wait_for(lambda: scene.events("slow", "StepAttemptFailed"))
    go_on.set()
    wait_for(lambda: [call for call in scene.reports() if call.answer])
    assert scene.reports()[0].answer.fields == {"accepted": False, "reason": "stale attempt"}
    threading.Event().wait(1)
    assert len(scene.reports()) == 1


@check("A worker killed between its effect and the answer to its report has not lost or doubled it",
       "O008", "O153", "O193", process=True)  # fmt: skip
@pytest.mark.databases
@pytest.mark.promise("E1", "D1", "W5")
def test_killed_before_the_answer(scene: Scene) -> None:
    scene.script("complete", hold(60, unavailable))
    scene.start("kept", "Charge")
    first = scene.process()
    wait_for(scene.reports, 20)
    first.kill()
    assert Charge.objects.count() == 1
    scene.process()
    assert scene.end_of("kept", 40)["status"] == "COMPLETED"
    assert Charge.objects.count() == 1


@check("What a killed worker was running comes to another one, marked as a redelivery, and nothing is doubled",
       "O006", "O131", "O193", process=True)  # fmt: skip
@pytest.mark.databases
@pytest.mark.promise("E1", "W5")
def test_killed_in_a_handler(scene: Scene) -> None:
    scene.start("lost", "Charge", seconds=60)
    first = scene.process("--worker-id", "first")
    wait_for(lambda: scene.notes("begin"), 20)
    first.signal(signal.SIGKILL)
    scene.process("--worker-id", "second")
    assert scene.end_of("lost", 30)["status"] == "COMPLETED"
    one, two = scene.events("lost", "StepDispatched")
    assert (one["attempt"], two["attempt"]) == (1, 1)
    assert two["worker_id"] == "second"
    assert [fields["redelivery"] for fields in scene.assignments()] == [False, True]
    assert Charge.objects.count() == 1

"""A whole worker that serves a Weave platform: its threads, its database, its end."""

import json
from collections.abc import Iterator

import pytest

from orbit_django.context import TaskContext
from orbit_django.embedded.weave.server import FREQUENT
from orbit_django.exceptions import TaskError
from orbit_django.models import IdempotencyRecord, OutboxMessage
from tests.testapp.models import Charge
from tests.transports.weave.scene import MAIL, Scene, capability
from tests.worker.weaving import HOLD, World, wait_for

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.databases]


@pytest.fixture
def world() -> Iterator[World]:
    world = World()
    yield world
    world.stop()
    world.scene.close()


@pytest.mark.promise("E1", "D2")
def test_tasks_are_done_once_and_their_receipts_are_kept(world: World) -> None:
    made = [world.scene.create() for _ in range(7)]
    assert world.run() == 0
    assert [world.task(one)["status"] for one in made] == ["completed"] * 7
    assert Charge.objects.count() == IdempotencyRecord.objects.count() == len(world.runs) == 7
    for message in OutboxMessage.objects.all():
        receipt = json.loads(message.receipt)
        assert (message.status, message.token, receipt["status"]) == ("delivered", "", "completed")
        assert receipt["completion_id"] == message.completion_id
    assert {ctx.workflow for ctx in world.runs} == {""}
    keys = {world.task(one)["operation_key"] for one in made}
    assert {ctx.idempotency_key for ctx in world.runs} == keys


@pytest.mark.clause("V52", "V56")
@pytest.mark.promise("E2", "D4")
def test_a_new_generation_is_answered_from_the_record_under_a_new_completion_id(world: World) -> None:
    task_id = world.scene.create()
    world.scene.faults.add("drop", "complete", times=99)
    worker = world.start()
    wait_for(lambda: world.scene.sent("complete"))
    for lease in [world.task(task_id)["attempts"][0]]:
        assert lease["generation"] == 1
    with world.scene.weave.changing() as platform:
        for attempt in platform.state.attempts.values():
            attempt.expires_at = 0.0  # as if its process had been paused for long
    wait_for(lambda: world.task(task_id)["generation"] == 2 and len(set(world.scene.bodies("complete"))) == 2)
    world.scene.faults.clear()
    wait_for(lambda: world.task(task_id)["status"] == "completed")
    wait_for(lambda: not OutboxMessage.objects.pending().exists())
    assert (len(world.runs), Charge.objects.count()) == (1, 1)
    first, second = OutboxMessage.objects.order_by("pk")
    assert first.completion_id != second.completion_id
    assert (first.status, first.reason[:13]) == ("refused", "stale attempt")
    assert second.status == "delivered"
    assert len({body for body in world.scene.bodies("complete") if first.completion_id.encode() in body}) == 1
    assert worker.vitals is not None


@pytest.mark.clause("V61", "V62")
@pytest.mark.promise("E4")
def test_a_retryable_failure_is_tried_again_by_recovery_and_another_is_not(world: World) -> None:
    def fail(ctx: TaskContext) -> None:
        raise TaskError("NO_LUCK", "not today", retryable=ctx.attempt < 2)

    world.script = [fail, fail]
    world.start()
    task_id = world.scene.create()
    wait_for(lambda: world.task(task_id)["status"] == "incident")
    errors = [json.loads(body)["error"] for body in world.scene.bodies("fail")]
    assert [(error["code"], error["outcome"]) for error in errors] == [("TRANSIENT", "failed"), ("NO_LUCK", "failed")]
    assert json.loads(IdempotencyRecord.objects.get().error or "")["error_message"] == "not today"
    assert ([ctx.attempt for ctx in world.runs], Charge.objects.count()) == ([1, 2], 0)


@pytest.mark.promise("W4")
def test_a_lost_lease_stops_its_handler_and_no_other(world: World) -> None:
    world.scene.close()
    world.scene = Scene(capability(), capability(HOLD), lease_seconds=3)
    world.start()
    ids = [world.scene.create(HOLD), world.scene.create(HOLD)]
    wait_for(lambda: len(world.runs) == 2)
    world.scene.call("cancel", run_id=world.task(ids[0])["run_id"])
    lost = next(ctx for ctx in world.runs if ctx.execution_id == world.task(ids[0])["run_id"])
    wait_for(lambda: lost.is_cancelled)
    assert sum(ctx.is_cancelled for ctx in world.runs) == 1
    world.go_on.set()
    wait_for(lambda: world.task(ids[1])["status"] == "completed")


@pytest.mark.promise("D1")
def test_what_is_refused_cut_or_expired_touches_no_other_delivery(world: World) -> None:
    world.start(weave=world.scene.settings(oauth=world.scene.oauth(), token=None))
    held = world.scene.create(HOLD)
    wait_for(lambda: world.runs)
    world.scene.faults.add("status", "complete", value=(409, "WV-LEASE"))
    refused = world.scene.create()
    wait_for(lambda: OutboxMessage.objects.filter(status="refused").exists())
    world.scene.faults.add("drop", "complete")
    cut = world.scene.create()
    wait_for(lambda: world.task(cut)["status"] == "completed")
    world.scene.call("expire_tokens")
    late = world.scene.create()
    wait_for(lambda: world.task(late)["status"] == "completed")
    world.go_on.set()
    wait_for(lambda: world.task(held)["status"] == "completed")
    assert not any(ctx.is_cancelled for ctx in world.runs)
    assert world.task(refused)["generation"] >= 1
    assert world.worker is not None
    assert world.worker.health.condition() is not None


@pytest.mark.clause("V84")
@pytest.mark.promise("D3")
def test_a_success_that_is_refused_for_its_form_ends_in_a_failure() -> None:
    strict = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}
    world = World()
    world.scene.close()
    world.scene = Scene(capability(outputSchema=strict), capability(HOLD))
    try:
        task_id = world.scene.create()
        assert world.run() == 0
        assert world.task(task_id)["receipts"][0]["status"] == "failed"
        complete, fail = OutboxMessage.objects.order_by("pk")
        assert (complete.status, complete.last_status, fail.status) == ("refused", 422, "delivered")
        error = json.loads(world.scene.bodies("fail")[0])["error"]
        assert (error["code"], error["outcome"]) == ("RESULT_REFUSED", "unknown")
    finally:
        world.scene.close()


@pytest.mark.promise("W5")
def test_a_worker_that_stops_renews_while_handlers_end_and_reports_them(world: World) -> None:
    world.scene.close()
    world.scene = Scene(capability(), capability(HOLD), lease_seconds=2)
    worker = world.start()
    held = world.scene.create(HOLD)
    wait_for(lambda: world.runs)
    worker.stop()
    before = len(world.scene.sent("heartbeat"))
    wait_for(lambda: len(world.scene.sent("heartbeat")) >= before + 4)
    late = world.scene.create()
    world.go_on.set()
    world.join()
    assert (world.code, world.task(held)["status"], world.task(late)["status"]) == (0, "completed", "ready")
    assert not any(ctx.is_cancelled for ctx in world.runs)


@pytest.mark.promise("W3")
def test_a_revoked_instance_is_replaced(world: World) -> None:
    world.start()
    wait_for(lambda: world.scene.call("instances"))
    world.scene.call("revoke_instance", worker_id=world.scene.call("instances")[0]["id"])
    task_id = world.scene.create()
    wait_for(lambda: world.task(task_id)["status"] == "completed")
    assert len(world.scene.call("instances")) == 2


def test_a_handler_borrows_a_secret_that_nothing_keeps(world: World, caplog: pytest.LogCaptureFixture) -> None:
    revision = world.scene.call("add_connection", secrets={"api": "s3cret-value"})
    world.scene.call("grant_connection", release_id=world.scene.release_id, revision_id=revision, capability=MAIL)
    seen: list[str] = []

    def borrow(ctx: TaskContext) -> None:
        seen.append(ctx.credentials("api").value)
        raise ValueError(f"the answer to {seen[0]} was no")

    world.script = [borrow]
    caplog.set_level("DEBUG", "orbit_django")
    world.scene.create(connection_revision_id=revision, retry={"maxAttempts": 1})
    world.run()
    assert seen == ["s3cret-value"]
    kept = repr(list(IdempotencyRecord.objects.values())) + repr(list(OutboxMessage.objects.values()))
    assert "s3cret-value" not in kept
    assert "was no" in kept
    assert "s3cret-value" not in caplog.text


@pytest.mark.clause("V20", "V21")
@pytest.mark.promise("D6")
def test_a_platform_that_turns_many_calls_away_gets_everything_in_the_end() -> None:
    world = World(limits=FREQUENT)
    try:
        made = [world.scene.create() for _ in range(8)]
        world.start(concurrency=6)
        wait_for(lambda: all(world.task(one)["status"] == "completed" for one in made), 50)
        refused = [one for one in world.scene.weave.recorder.exchanges if one.status == 429]
        assert refused, "or nothing was proven"
        assert len(world.runs) == Charge.objects.count() == 8
    finally:
        world.stop()
        world.scene.close()


def test_an_answer_that_comes_after_the_lease_has_expired_still_settles_the_outcome() -> None:
    world = World(lease_seconds=1)
    try:
        world.scene.faults.add("delay", "complete", value=2_500)
        task_id = world.scene.create()
        world.start()
        wait_for(lambda: OutboxMessage.objects.filter(status="delivered").exists())
        assert (world.task(task_id)["status"], world.task(task_id)["generation"]) == ("completed", 1)
        assert len(world.runs) == 1
    finally:
        world.stop()
        world.scene.close()


def test_an_instance_that_an_operator_drains_gets_no_more_and_finishes_what_it_has(world: World) -> None:
    world.start()
    held = world.scene.create(HOLD)
    wait_for(lambda: world.runs)
    instance = world.scene.call("instances")[0]["id"]
    world.scene.call("drain", worker_id=instance)
    waiting = world.scene.create()
    asked = len(world.scene.sent("claim"))
    wait_for(lambda: len(world.scene.sent("claim")) >= asked + 3)
    assert world.task(waiting)["status"] == "ready"
    world.go_on.set()
    wait_for(lambda: world.task(held)["status"] == "completed")
    world.scene.call("drain", worker_id=instance, is_draining=False)
    wait_for(lambda: world.task(waiting)["status"] == "completed")


def test_a_principal_that_loses_its_rights_for_a_while_works_again_when_it_has_them(world: World) -> None:
    world.start()
    wait_for(lambda: world.scene.sent("claim"))
    world.scene.call("set_principal", name="worker", is_active=False)
    wait_for(lambda: world.scene.sent("claim")[-1].status in (401, 403))
    task_id = world.scene.create()
    world.scene.call("set_principal", name="worker", is_active=True)
    wait_for(lambda: world.task(task_id)["status"] == "completed")

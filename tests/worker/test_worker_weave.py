"""A whole worker that serves a Weave platform: its threads, its database, its end."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from orbit_django.conf import OrbitSettings
from orbit_django.conf.options import RunOptions
from orbit_django.context import TaskContext
from orbit_django.exceptions import TaskError
from orbit_django.models import IdempotencyRecord, OutboxMessage
from orbit_django.protocol import Contract
from orbit_django.tasks import Task
from orbit_django.worker.binding import open_transport
from orbit_django.worker.worker import Worker
from tests.testapp.models import Charge
from tests.transports.weave.scene import MAIL, Scene, capability

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.databases]

HOLD = "mail.hold@1.0.0"


class World:
    """The server, the handlers, and one worker in a thread."""

    def __init__(self, **options: Any) -> None:
        self.scene = Scene(capability(), capability(HOLD), opt_in=(MAIL,), **options)
        self.runs: list[TaskContext] = []
        self.go_on = threading.Event()
        self.script: list[Callable[[TaskContext], Any]] = []
        self.worker: Worker | None = None
        self._thread: threading.Thread | None = None
        self.code: int | None = None

    def tasks(self) -> list[Task]:
        return [
            Task(Contract("mail.send", "1.0.0"), self.send),
            Task(Contract("mail.hold", "1.0.0"), self.hold, is_atomic=False),
        ]

    def send(self, input: Any, ctx: TaskContext) -> dict[str, Any]:
        self.runs.append(ctx)
        Charge.objects.create(key=ctx.idempotency_key, amount=1, attempt=ctx.attempt)
        if self.script:
            self.script.pop(0)(ctx)
        return {"attempt": ctx.attempt}

    def hold(self, input: Any, ctx: TaskContext) -> dict[str, Any]:
        self.runs.append(ctx)
        while not self.go_on.is_set() and ctx.sleep(0.05):
            pass
        ctx.raise_if_cancelled()
        return {"held": True}

    def settings(self, **more: Any) -> OrbitSettings:
        usual: dict[str, Any] = {"worker_id": "shop-1", "concurrency": 3, "weave": self.scene.settings()}
        return OrbitSettings(transport="weave", **(usual | more))

    def run(self, **more: Any) -> int:
        """Work until nothing is left."""
        return self.made(burst=True, **more).run()

    def made(self, *, burst: bool = False, **more: Any) -> Worker:
        settings = self.settings(**more)
        self.worker = Worker(settings, self.tasks(), open_transport(settings), how=RunOptions(burst=burst))
        return self.worker

    def start(self, **more: Any) -> Worker:
        worker = self.made(**more)

        def run() -> None:
            self.code = worker.run()

        self._thread = threading.Thread(target=run)
        self._thread.start()
        return worker

    def stop(self) -> None:
        self.go_on.set()
        if self._thread is not None and self.worker is not None:
            self.worker.stop()
            self.join()

    def join(self) -> None:
        assert self._thread is not None
        self._thread.join(30)
        assert not self._thread.is_alive()
        self._thread = None

    def task(self, task_id: str) -> Any:
        return self.scene.call("task", task_id=task_id)


def wait_for(condition: Callable[[], Any], seconds: float = 30) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "in time"
        time.sleep(0.02)  # noqa: TID251  (between two looks at another thread)


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

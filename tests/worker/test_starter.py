import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import DatabaseError, OperationalError, transaction

from orbit_django import starts
from orbit_django.client import start_on_commit
from orbit_django.clock import FixedClock
from orbit_django.conf import OrbitSettings
from orbit_django.dialects import dialect_of
from orbit_django.embedded.faults import Faults
from orbit_django.embedded.server import EmbeddedRuntime
from orbit_django.exceptions import NoAnswerError
from orbit_django.models import WorkflowStart
from orbit_django.starts import Status
from orbit_django.testing.transport import RecordingTransport
from orbit_django.transports.executions import Executions
from orbit_django.worker.gate import DatabaseGate
from orbit_django.worker.starter import LOOK_SECONDS, Bystander, Starter
from orbit_django.worker.worker import Worker
from tests.worker.starting import CONTRACT, INPUT, TOKEN, World, ask, executions, hasten, stored
from tests.worker.words import assert_backs_off, refusal

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.databases]


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def faults() -> Faults:
    return Faults()


@pytest.fixture
def runtime(faults: Faults) -> Iterator[EmbeddedRuntime]:
    with EmbeddedRuntime([CONTRACT], token=TOKEN, worker_token="wrk", faults=faults) as runtime:
        yield runtime


@pytest.fixture
def starter(runtime: EmbeddedRuntime) -> Iterator[Starter]:
    executions = Executions(OrbitSettings(server=runtime.url, token=TOKEN))
    yield Starter(executions, ["default"], gate=DatabaseGate(), redact=str)
    executions.close()


def wait_of(row: WorkflowStart) -> float:
    return (row.due_at - dialect_of("default").read_now_ms()) / 1000


def refuse_the_bad(body: str) -> dict[str, Any]:
    execution_id = json.loads(body)["execution_id"]
    if execution_id == "bad":
        raise NoAnswerError("500")
    return {"execution_id": execution_id}


def levels(caplog: pytest.LogCaptureFixture) -> list[int]:
    return [record.levelno for record in caplog.records]


@pytest.mark.promise("D1")
def test_every_commit_starts_one_execution_and_no_rollback_does(
    settings, runtime: EmbeddedRuntime, starter: Starter, faults: Faults
) -> None:
    settings.ORBIT = {"SERVER": runtime.url}
    faults.add("lost", "other", times=3)
    faults.add("status", "other", value=503, times=2, skip=4)
    for number in range(4):
        with transaction.atomic():
            start_on_commit("Charge", INPUT, execution_id=f"kept-{number}")
        with transaction.atomic():
            start_on_commit("Charge", INPUT, execution_id=f"gone-{number}")
            transaction.set_rollback(True)
    for _ in range(20):
        starter.step()
        hasten()

    assert executions(runtime) == [f"kept-{number}" for number in range(4)]
    assert {row.status for row in WorkflowStart.objects.all()} == {Status.STARTED}
    assert sum(row.attempts for row in WorkflowStart.objects.all()) == 9, "five tries went wrong"


def test_a_start_is_answered(world: World, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "orbit_django")
    ask()

    assert world.look() == 0.0, "perhaps there is more"
    assert world.look() == LOOK_SECONDS
    assert world.answers.bodies == ['{"workflow":"Charge","input":{"amount":5,"pause_ms":0},"execution_id":"e-1"}']
    assert (stored().status, stored().due_at, stored().attempts) == (Status.STARTED, None, 1)
    assert [(record.execution, record.is_new) for record in caplog.records] == [("e-1", True)]


def test_an_execution_that_exists_is_started(world: World) -> None:
    ask()
    world.look({"created": False})

    assert stored().status == Status.STARTED


@pytest.mark.promise("D1", "D4")
def test_a_start_without_an_answer_falls_due_again_later_and_later(world: World) -> None:
    ask()
    waits = []
    for _ in range(7):
        hasten()
        pause = world.look(NoAnswerError("down"))
        waits.append(wait_of(stored()))
        assert 0.2 <= pause <= 6.0

    assert_backs_off(waits, late=0.15)
    assert (stored().status, stored().attempts, stored().last_error) == (Status.PENDING, 7, "down")
    hasten()
    world.look()
    assert stored().status == Status.STARTED
    assert len(set(world.answers.bodies)) == 1, "the same bytes, every time"


@pytest.mark.parametrize("answer", [{"execution_id": "e-2"}, {"execution_id": None}])
def test_an_answer_that_names_no_such_execution_is_none(world: World, answer: dict[str, Any]) -> None:
    ask()
    world.look(answer)

    assert stored().status == Status.PENDING


@pytest.mark.promise("D6")
def test_a_runtime_that_is_away_is_not_asked_once_for_each_start(world: World) -> None:
    for number in range(9):
        ask(f"e-{number}")
    waits = [world.look(NoAnswerError("down")) for _ in range(8)]

    assert sum(waits) > 15
    assert max(waits) <= 6.0
    assert world.look() == 0.0
    hasten()
    assert 0.2 <= world.look(NoAnswerError("down")) < 0.25, "an answer ends the trouble"


@pytest.mark.parametrize("status", [408, 425, 429])
def test_a_refusal_that_time_heals_is_no_answer(world: World, status: int) -> None:
    ask()
    world.look(refusal(status))

    assert (stored().status, stored().attempts) == (Status.PENDING, 1)


@pytest.mark.promise("D2")
@pytest.mark.parametrize(
    "error",
    [
        refusal(401, "UNAUTHENTICATED"),
        refusal(403, "FORBIDDEN"),
        refusal(307, is_from_runtime=False),
        refusal(404, is_from_runtime=False),
    ],
    ids=str,
)
def test_what_says_nothing_about_a_start_blocks_it_until_a_worker_begins(
    world: World, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    ask()
    assert world.look(error) > 0.0
    assert (stored().status, stored().last_status, stored().last_error) == (Status.BLOCKED, error.status, str(error))
    assert levels(caplog) == [logging.ERROR]
    told = getattr(caplog.records[0], "advice", "")
    assert ("ORBIT_TOKEN" in told) == (error.status in (401, 403)), told
    assert [world.look() for _ in range(2)] == [LOOK_SECONDS] * 2
    assert len(world.answers.bodies) == 1

    second = World()
    second.look(error)
    assert [second.look() for _ in range(2)] == [LOOK_SECONDS] * 2, "tried once"
    World().look()
    assert stored().status == Status.STARTED


@pytest.mark.promise("D3")
@pytest.mark.parametrize("status", [400, 404, 409, 413, 422])
def test_what_the_runtime_will_not_have_is_refused_with_its_words(
    world: World, caplog: pytest.LogCaptureFixture, status: int
) -> None:
    ask()
    assert world.look(refusal(status, "EXECUTION_EXISTS", "with another input")) == 0.0

    row = stored()
    assert (row.status, row.last_status, row.due_at) == (Status.REFUSED, status, None)
    assert "with another input" in row.last_error
    assert [(record.levelno, record.execution) for record in caplog.records] == [(logging.ERROR, "e-1")]
    assert [World().look() for _ in range(2)] == [LOOK_SECONDS] * 2, "for good"


@pytest.mark.promise("D5")
def test_a_start_that_never_works_holds_up_no_other(world: World) -> None:
    ask("bad")
    ask("good")
    world.answers.start = lambda body, **_: refuse_the_bad(body)
    for _ in range(4):
        world.look()

    assert stored("good").status == Status.STARTED
    assert stored("bad").status == Status.PENDING


@pytest.mark.promise("W9")
def test_no_credential_is_kept_or_logged(world: World, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "orbit_django")
    for number, answer in enumerate([NoAnswerError("SECRET"), refusal(401, message="SECRET"), refusal(400, "SECRET")]):
        ask(f"e-{number}")
        world.look(answer)

    assert not [row for row in WorkflowStart.objects.all() if "SECRET" in row.last_error]
    assert not [record for record in caplog.records if "SECRET" in str(vars(record))]


def test_failing_starts_are_logged_at_the_first_and_tenth_time(world: World, caplog) -> None:
    ask()
    for _ in range(12):
        hasten()
        world.look(NoAnswerError("down"))

    assert [record.tries for record in caplog.records if record.levelno == logging.WARNING] == [1, 10]


def test_an_idle_starter_asks_once_a_second(world: World, django_assert_num_queries) -> None:
    world.look()
    with django_assert_num_queries(1):
        assert world.look() == LOOK_SECONDS


@pytest.mark.promise("D1")
def test_an_answer_that_was_not_filed_is_asked_for_again(world: World, monkeypatch) -> None:
    ask()
    with monkeypatch.context() as patch:
        patch.setattr(starts, "settle", lambda start: (_ for _ in ()).throw(OperationalError("away")))
        assert world.look() == LOOK_SECONDS
    assert stored().status == Status.PENDING
    hasten()
    world.look({"created": False})

    assert stored().status == Status.STARTED


@pytest.mark.promise("W7")
def test_a_database_that_is_away_ends_no_loop_and_is_left_alone(world: World, monkeypatch) -> None:
    def away(*args: Any) -> None:
        raise DatabaseError("away")

    monkeypatch.setattr(starts, "claim_due", away)
    monkeypatch.setattr(starts, "pending_count", away)
    assert world.look() == LOOK_SECONDS
    assert Bystander(["default"], gate=DatabaseGate()).step() == LOOK_SECONDS
    world.gate.close(OSError("down"))
    monkeypatch.setattr(starts, "claim_due", None)
    monkeypatch.setattr(starts, "pending_count", None)
    assert world.look() == LOOK_SECONDS
    assert Bystander(["default"], gate=world.gate).step() == LOOK_SECONDS


def test_without_a_token_starts_are_left_alone_and_warned_of_once_each_time_that_some_wait(caplog) -> None:
    bystander = Bystander(["default"], gate=DatabaseGate())
    assert bystander.step() >= 60
    assert caplog.records == []
    ask()
    for _ in range(3):
        assert bystander.step() >= 60

    assert (stored().status, stored().attempts) == (Status.PENDING, 0)
    assert [(record.levelno, record.waiting) for record in caplog.records] == [(logging.WARNING, 1)]
    assert "TOKEN" in caplog.text

    stored().delete()
    bystander.step()
    ask()
    bystander.step()
    assert [record.waiting for record in caplog.records] == [1, 1]


@pytest.mark.parametrize(("token", "kind"), [(TOKEN, Starter), (None, Bystander)])
def test_a_worker_has_one_of_them(token: str | None, kind: type) -> None:
    settings = OrbitSettings(server="http://127.0.0.1:9", token=token, worker_token="wrk")
    worker = Worker(settings, [], RecordingTransport(), FixedClock())

    assert [type(loop) for loop in worker._side_rooms() if loop.name == "starter"] == [kind]

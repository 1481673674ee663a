import threading
import time

import pytest
from django.db import connection

from orbit_django.client import Client, start_on_commit
from orbit_django.contracts import read
from orbit_django.exceptions import ConfigurationError
from orbit_django.models import IdempotencyRecord, OutboxMessage, WorkflowStart
from orbit_django.testing import run_until_idle, running_runtime
from tests.processes import wait_until_alone
from tests.testapp.models import Charge
from tests.worker.staging import WORKFLOWS

pytestmark = pytest.mark.databases
LATE = WORKFLOWS.replace("initial_delay: 0s", "initial_delay: 10m")
GIVEN = {"seconds": 0.0}


def ours() -> set[threading.Thread]:
    """Return the threads of workers and of the runtime itself; those of its connections end when their clients do."""
    return {thread for thread in threading.enumerate() if thread.name.startswith("orbit-")}


@pytest.fixture
def runtime():
    wait_until_alone()
    with running_runtime(contracts=read(LATE)) as runtime:
        yield runtime


@pytest.fixture
def client(runtime):
    client = Client()
    yield client
    client.close()


@pytest.mark.django_db
def test_all_that_is_due_is_done_in_the_transaction_of_the_test(runtime, client):
    raw, threads = connection.connection, ours()
    ids = [client.start("Charge", GIVEN), start_on_commit("Charge", GIVEN), client.start("Hold", GIVEN)]
    count = run_until_idle(runtime)

    assert count == 3
    assert {runtime.execution(each)["status"] for each in ids} == {"COMPLETED"}
    assert Charge.objects.count() == 3
    assert WorkflowStart.objects.get().status == "started"
    assert set(OutboxMessage.objects.values_list("status", flat=True)) == {"delivered"}
    assert connection.connection is raw
    assert ours() == threads
    assert run_until_idle(runtime) == 0


@pytest.mark.django_db
def test_pauses_before_retries_are_skipped(runtime, client):
    began = time.monotonic()
    execution = client.start("Retried", GIVEN)

    assert run_until_idle(runtime) == 3
    assert runtime.execution(execution)["status"] == "COMPLETED"
    assert Charge.objects.get().attempt == 3
    assert time.monotonic() - began < 20


@pytest.mark.django_db
def test_a_retry_that_is_far_away_is_left_alone(runtime, client, monkeypatch):
    monkeypatch.setattr("orbit_django.testing.idle.PAUSE_SECONDS", 60.0)
    execution = client.start("Retried", GIVEN)

    assert run_until_idle(runtime) == 1
    assert runtime.execution(execution)["status"] == "RUNNING"
    runtime.pass_time(600)
    assert runtime.next_retry() is None
    assert run_until_idle(runtime) == 1


@pytest.mark.django_db
def test_a_lost_answer_is_asked_for_again(runtime, client):
    runtime.faults.add("lost", "complete")
    execution = client.start("Charge", GIVEN)
    run_until_idle(runtime)

    assert runtime.execution(execution)["status"] == "COMPLETED"
    message = OutboxMessage.objects.get()
    assert (message.status, message.attempts) == ("refused", 2)  # "duplicate", or "unknown token"
    assert Charge.objects.count() == 1


@pytest.mark.django_db(transaction=True, databases=["default", "other"])
def test_a_worker_with_threads_does_the_same_where_transactions_commit(runtime, client):
    threads = ours()
    ids = [client.start("Charge", GIVEN) for _ in range(5)] + [client.start("Retried", GIVEN)]

    assert run_until_idle(runtime, threads=2) == 8
    assert {runtime.execution(each)["status"] for each in ids} == {"COMPLETED"}
    assert Charge.objects.count() == 6
    assert IdempotencyRecord.objects.succeeded().count() == 6
    assert ours() == threads


@pytest.mark.django_db
def test_threads_need_a_test_that_commits(runtime):
    with pytest.raises(ConfigurationError, match="run_until_idle with threads needs a test that commits"):
        run_until_idle(runtime, threads=2)


@pytest.mark.django_db
def test_a_runtime_that_lets_nobody_in_is_named():
    with running_runtime(token="a-secret", contracts=read(WORKFLOWS)) as runtime:  # noqa: SIM117
        with pytest.raises(ConfigurationError, match="the runtime does not let this worker in"):
            run_until_idle(runtime)


@pytest.mark.django_db
def test_a_step_that_nobody_serves_is_told_of(caplog):
    text = WORKFLOWS.replace('"test.charge"', '"test.unknown"')
    with running_runtime(contracts=read(text)) as runtime:
        client = Client()
        execution = client.start("Charge", GIVEN)
        client.close()
        assert run_until_idle(runtime) == 0

    (told,) = [record for record in caplog.records if "nobody here has" in record.message]
    assert (told.execution, told.step, told.task) == (execution, "only", "test.unknown 1.0.0")


@pytest.mark.django_db
def test_a_project_without_a_matching_handler_is_idle():
    with running_runtime() as runtime:
        assert run_until_idle(runtime) == 0

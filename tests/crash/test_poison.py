"""A handler that ends its process each time comes to an end itself; a process that is told to end costs nothing."""

import json

import pytest

from orbit_django.models import IdempotencyRecord, OutboxMessage
from orbit_django.protocol import Code
from tests.crash.world import World, wait_for
from tests.testapp.models import Charge

pytestmark = [
    pytest.mark.databases,
    pytest.mark.django_db(transaction=True),
    pytest.mark.timeout(90),
    pytest.mark.promise("E11"),
]


def test_a_handler_that_kills_its_process_is_given_up_with_its_history(made: World) -> None:
    limit = 2
    made.play("e1", "Dying", "kill")
    deaths = 0
    while not made.execution("e1").is_finished:
        name = f"w{deaths}"
        worker = made.worker(concurrency=1, options=("--worker-id", name), MAX_REDELIVERIES=limit, POLL_WAIT_MS=500)
        wait_for(lambda now=worker: now.poll() is not None or made.execution("e1").is_finished, 30, "death or end")
        deaths += 1
    assert made.execution("e1").error["code"] == Code.DELIVERY_LIMIT
    assert len(made.notes("e1", "run")) == 1 + limit + 1  # the first run was no redelivery yet
    failure = json.loads(OutboxMessage.objects.get().body)
    assert failure["retryable"] is True
    assert failure["details"]["redeliveries"] == limit + 1
    assert [run["worker_id"] for run in failure["details"]["runs"]] == ["w1", "w2", "w3"]
    assert (IdempotencyRecord.objects.get().status, Charge.objects.count()) == ("failed", 0)


@pytest.mark.promise("W5")
def test_processes_that_end_in_order_are_not_counted(made: World) -> None:
    orderly = 3
    made.play("e1", "Dying", f"linger {orderly}")
    for number in range(1, orderly + 1):
        worker = made.worker(concurrency=1, options=("--drain-timeout", "0.1"), MAX_REDELIVERIES=1, POLL_WAIT_MS=500)
        made.wait_for_note("e1", "run", number)
        worker.terminate()
        assert worker.wait(20) == 1
    made.worker(MAX_REDELIVERIES=1)
    assert made.wait_for_end("e1").status == "COMPLETED"
    assert made.events("e1", "StepAttemptUncertain") == orderly
    assert Charge.objects.count() == 1

"""A worker that sleeps through the end of its claim: its successor's outcome stands, whatever it does on waking up."""

import signal

import pytest
from django.db import connection

from orbit_django.models import Effect, IdempotencyRecord, OutboxMessage
from tests.crash.world import World, kill, wait_for
from tests.testapp.models import Charge

pytestmark = [
    pytest.mark.databases,
    pytest.mark.django_db(transaction=True),
    pytest.mark.timeout(90),
    pytest.mark.promise("E9"),
]

SHORT = {"CLAIM_SECONDS": 1, "POLL_WAIT_MS": 500}


def claimed(made: World, mode: str):
    """Return a worker that runs the handler under its claim, and the claim's mark."""
    made.play("e1", "Holding", mode, pause_ms=1_500)
    worker = made.worker(concurrency=1, options=("--worker-id", "first"), **SHORT)
    made.wait_for_note("e1", "begin")
    return worker, IdempotencyRecord.objects.get().owner


def settled(made: World) -> OutboxMessage:
    """Return the message that was accepted, once nothing is owed any more."""
    made.end_holds()
    wait_for(lambda: not OutboxMessage.objects.undelivered().exists(), 20, "no message is left")
    return OutboxMessage.objects.get(accepted=True)


@pytest.mark.parametrize("mode", ["idle", "rows"])
def test_a_stale_owner_records_nothing_over_its_successor(made: World, mode: str) -> None:
    stale, mark = claimed(made, mode)
    stale.send_signal(signal.SIGSTOP)
    made.worker(options=("--worker-id", "second"), **SHORT)
    wait_for(lambda: IdempotencyRecord.objects.get().owner != mark, 20, "the key is taken over")
    stale.send_signal(signal.SIGCONT)  # its pause is over by now, that of the new owner is not
    made.wait_for_end("e1")
    record = IdempotencyRecord.objects.get()
    assert (record.status, record.worker_id) == ("succeeded", "second")
    assert record.generation >= 2
    assert settled(made).worker_id == "second"
    assert made.execution("e1").steps["holding"].output == {"nonce": record.output.split('"')[3]}
    assert made.events("e1", "StepSucceeded") == 1
    wait_for(lambda: "the claim was lost" in made.log.read_text(), 20, "the stale owner learns of it")
    assert Charge.objects.count() == Effect.objects.count() == int(mode == "rows")


@pytest.mark.skipif(connection.vendor == "sqlite", reason="an open transaction would keep every other writer out")
def test_a_transaction_that_the_claim_did_not_outlive_is_undone(made: World) -> None:
    made.play("e1", "Holding", "inside", pause_ms=1_500)
    stale = made.worker(concurrency=1, **SHORT)
    made.wait_for_note("e1", "inside")
    mark = IdempotencyRecord.objects.get().owner
    stale.send_signal(signal.SIGSTOP)
    made.worker(**SHORT)
    wait_for(lambda: IdempotencyRecord.objects.get().owner != mark, 20, "the key is taken over")
    stale.send_signal(signal.SIGCONT)
    assert made.wait_for_end("e1").status == "COMPLETED"
    settled(made)
    nonce = Charge.objects.get().nonce
    assert made.execution("e1").steps["holding"].output == {"nonce": nonce}
    assert nonce in Effect.objects.get().result


def test_a_dead_owner_is_replaced_when_its_claim_has_ended(made: World) -> None:
    dead, mark = claimed(made, "rows")
    kill(dead)
    made.worker(options=("--worker-id", "second"), **SHORT)
    assert made.wait_for_end("e1").status == "COMPLETED"
    record = IdempotencyRecord.objects.get()
    assert record.owner != mark
    assert (record.worker_id, Charge.objects.count()) == ("second", 1)
    assert len(made.notes("e1", "begin")) == 2


def test_a_claim_lives_as_long_as_its_handler_runs(made: World) -> None:
    made.play("e1", "Holding", pause_ms=3_000)
    made.worker(**SHORT)
    made.wait_for_note("e1", "begin")
    with made.runtime.changing() as runtime:
        for session in runtime.sessions:
            runtime.sessions.close(session, "expired on purpose")
    made.worker(**SHORT)
    assert made.wait_for_end("e1").status == "COMPLETED"
    assert made.events("e1", "StepAttemptUncertain") >= 1
    assert len(made.notes("e1", "begin")) == 1
    assert Charge.objects.count() == 1

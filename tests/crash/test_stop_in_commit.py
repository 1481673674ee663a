"""A worker is told to stop while its COMMIT is under way."""

import signal
import subprocess

import pytest

from orbit_django.models import OutboxMessage
from tests.crash.conftest import ON_A_SERVER
from tests.crash.proxy import HELD, Proxy, Strike
from tests.crash.world import World, wait_for
from tests.testapp.models import Charge

pytestmark = [
    pytest.mark.databases,
    pytest.mark.django_db(transaction=True),
    pytest.mark.timeout(90),
    pytest.mark.promise("W5", "E6"),
    ON_A_SERVER,
]


def held_commit(distant: World, proxy: Proxy) -> tuple[Strike, subprocess.Popen[bytes]]:
    """Return a COMMIT that waits in front of the server, and the worker that waits for it."""
    strike = proxy.strike(HELD, "strike e1")
    distant.play("e1", "Marked")
    worker = distant.worker(concurrency=1)
    wait_for(strike.struck.is_set, 30, "the COMMIT is under way")
    return strike, worker


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_one_signal_waits_for_its_end_and_reports_it(distant: World, proxy: Proxy, number: int) -> None:
    strike, worker = held_commit(distant, proxy)
    worker.send_signal(number)
    with pytest.raises(subprocess.TimeoutExpired):
        worker.wait(1.5)
    strike.let_go.set()

    assert worker.wait(10) == 0, distant.log.read_text()
    assert distant.execution("e1").status == "COMPLETED"
    assert len(distant.notes("e1", "run")) == Charge.objects.count() == 1
    assert OutboxMessage.objects.get().status == "delivered"
    assert distant.faults.calls[-1].name == "unregister"


@pytest.mark.parametrize("is_committed", [False, True])
def test_two_signals_leave_it_and_the_next_worker_finds_out(distant: World, proxy: Proxy, is_committed: bool) -> None:
    strike, worker = held_commit(distant, proxy)
    worker.terminate()
    wait_for(lambda: "the worker stops" in distant.log.read_text(), 10, "the first signal has come")
    worker.terminate()
    if is_committed:
        wait_for(lambda: "ends at once" in distant.log.read_text(), 10, "the second signal has come")
        strike.let_go.set()

    assert worker.wait(10) == 1, distant.log.read_text()
    strike.let_go.set()
    proxy.cut()
    distant.worker()
    distant.end_holds()
    assert distant.wait_for_end("e1", 30).status == "COMPLETED"
    assert Charge.objects.count() == 1
    wait_for(lambda: not OutboxMessage.objects.undelivered().exists(), 20, "no message is left")

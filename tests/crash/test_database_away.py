"""The database is away for some seconds: the worker stays, asks for little, keeps its session, goes on by itself."""

import time
from collections.abc import Callable
from threading import Event

import pytest

from orbit_django.models import IdempotencyRecord, OutboxMessage
from orbit_django.worker.probes.address import listen
from tests.crash.conftest import ON_A_SERVER
from tests.crash.proxy import Proxy
from tests.crash.world import World, wait_for
from tests.probing import GOOD, ask
from tests.testapp.models import Charge

pytestmark = [
    pytest.mark.databases,
    pytest.mark.django_db(transaction=True),
    pytest.mark.timeout(90),
    pytest.mark.promise("W7"),
    ON_A_SERVER,
]

AWAY_SECONDS = 4.0
LOOPS = 4
AWAY: dict[str, tuple[Callable[[Proxy], None], Callable[[Proxy], None]]] = {
    "refused": (Proxy.refuse, Proxy.admit),
    "hung": (Proxy.hang, Proxy.release),
    "hung and cut": (Proxy.hang, lambda proxy: proxy.release(is_lost=True)),
}
WAYS = pytest.mark.parametrize("way", AWAY)


def stay(seconds: float) -> None:
    """Let the database be away for so long."""
    Event().wait(seconds)


def end_well(made: World, *executions: str) -> None:
    """See that every execution completes with one row each and nothing is owed."""
    for name in executions:
        assert made.wait_for_end(name, 20).status == "COMPLETED"
    wait_for(lambda: not OutboxMessage.objects.undelivered().exists(), 20, "no message is left")
    assert Charge.objects.count() == IdempotencyRecord.objects.count() == len(executions)


@WAYS
def test_an_idle_worker_asks_for_little_and_goes_on_when_it_is_back(distant: World, proxy: Proxy, way: str) -> None:
    worker = distant.worker(concurrency=LOOPS, POLL_WAIT_MS=500)
    distant.wait_for_poll()
    leave, come_back = AWAY[way]
    leave(proxy)
    began = time.monotonic()
    stay(1.0)  # the relay looks once a second, and what was polled before may still be answered
    for number in range(LOOPS * 2):
        distant.start(f"e{number}", number)
    stay(AWAY_SECONDS - 1.0)
    polls, beats = (len(distant.faults.times(call, began)) for call in ("poll", "heartbeat"))
    taken = sum(distant.events(f"e{number}", "StepDispatched") for number in range(LOOPS * 2))
    assert beats >= 5
    assert polls <= 5 * LOOPS
    assert taken <= LOOPS
    assert worker.poll() is None
    come_back(proxy)
    end_well(distant, *(f"e{number}" for number in range(LOOPS * 2)))
    assert len(distant.faults.times("register")) == 1
    since = time.monotonic()
    wait_for(lambda: len(distant.faults.times("poll", since)) >= LOOPS, 20, "every loop polls again")


@pytest.mark.parametrize("way", ["refused", "hung"])
def test_a_handler_that_needs_no_database_runs_on_and_is_stored_later(distant: World, proxy: Proxy, way: str) -> None:
    distant.play("e1", "Holding", pause_ms=2_000)
    distant.worker(POLL_WAIT_MS=500)
    distant.wait_for_note("e1", "begin")
    leave, come_back = AWAY[way]
    leave(proxy)
    distant.wait_for_note("e1", "end")
    stay(AWAY_SECONDS - 2.0)
    come_back(proxy)
    end_well(distant, "e1")
    assert len(distant.notes("e1", "begin")) == 1
    assert distant.events("e1", "StepAttemptUncertain") == 0
    assert len(distant.faults.times("register")) == 1


@pytest.mark.promise("W10")
@pytest.mark.parametrize("way", ["refused", "hung"])
def test_its_probes_tell_within_a_second(distant: World, proxy: Proxy, way: str) -> None:
    with listen("127.0.0.1", 0) as free:
        port = free.getsockname()[1]
    distant.worker(POLL_WAIT_MS=500, options=("--health", str(port)))
    wait_for(lambda: ask(port, "/readyz") == GOOD, 20, "it is ready")
    leave, come_back = AWAY[way]
    leave(proxy)
    told = {"refused": "the database cannot be reached\n", "hung": "the database has not answered for "}[way]
    wait_for(lambda: told in ask(port, "/readyz")[1], 25, "it is not ready any more")
    assert ask(port, "/livez") == GOOD
    come_back(proxy)
    wait_for(lambda: ask(port, "/readyz") == GOOD, 20, "it is ready again")


@pytest.mark.promise("W5")
@pytest.mark.parametrize("way", ["refused", "hung"])
def test_an_idle_worker_can_be_stopped_meanwhile(distant: World, proxy: Proxy, way: str) -> None:
    distant.environment |= proxy.environment(connect_timeout=60)
    worker = distant.worker(POLL_WAIT_MS=500)
    distant.wait_for_poll()
    AWAY[way][0](proxy)
    stay(1.5)
    worker.terminate()
    assert worker.wait(12) == 0, distant.log.read_text()


@pytest.mark.promise("W5")
@pytest.mark.parametrize(("way", "signals"), [("refused", 1), ("hung", 2)])
def test_a_worker_with_a_result_to_store_can_be_stopped_meanwhile(
    distant: World, proxy: Proxy, way: str, signals: int
) -> None:
    distant.play("e1", "Holding", pause_ms=500)
    worker = distant.worker(POLL_WAIT_MS=500, CLAIM_SECONDS=2)
    distant.wait_for_note("e1", "begin")
    leave, come_back = AWAY[way]
    leave(proxy)
    distant.wait_for_note("e1", "end")
    for _ in range(signals):
        worker.terminate()
        stay(0.5)
    assert worker.wait(12) == signals - 1, distant.log.read_text()
    come_back(proxy)
    distant.worker(CLAIM_SECONDS=2)
    end_well(distant, "e1")

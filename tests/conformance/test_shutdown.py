"""How a worker ends: in which order, with which exit code, and what it leaves behind."""

import signal
import threading
import time

import pytest

from tests.conformance.observer import drop, hold, refuse, say, unavailable, unknown_session
from tests.conformance.scene import Scene
from tests.conformance.table import check
from tests.processes import WorkerProcess, wait_for

STOPS = "the worker stops"


def idle(scene: Scene, *arguments: str, **environment: str) -> WorkerProcess:
    """Start a worker process and wait until it polls."""
    began = time.monotonic()
    worker = scene.process(*arguments, **environment)
    scene.seen("poll", since=began)
    return worker


@check("SIGTERM and SIGINT end an idle worker at once: it gives its session back, exit code 0",
       "O007", "O110", "O158", "O190", "O191", process=True)  # fmt: skip
@pytest.mark.promise("W2", "W5")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_idle(scene: Scene, number: int) -> None:
    worker = idle(scene)
    sent_at = worker.signal(number)
    assert worker.exit_code() == 0
    assert time.monotonic() - sent_at < 3
    (given_back,) = scene.wait("unregister")
    assert given_back.fields == {"worker_session_id": scene.named("register")[0].answer.fields["worker_session_id"]}
    assert scene.calls[-1] is given_back
    assert "Traceback" not in worker.log()


@check("After the signal nothing is asked for; tasks end, heartbeats go on, results go out, and then the session ends",
       "O007", "O111", "O154", "O158", "O190", "O192", "O324", "O336", process=True)  # fmt: skip
@pytest.mark.promise("W2", "W5", "E7")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_running(scene: Scene, number: int) -> None:
    scene.serve(session_timeout_ms=1_500)
    scene.start("one", "Charge", seconds=2.5)
    worker = idle(scene, "--concurrency", "2")
    wait_for(lambda: scene.notes("begin"), 20)
    sent_at = worker.signal(number)
    assert worker.exit_code(20) == 0
    assert scene.view("one")["status"] == "COMPLETED"
    assert len(scene.events("one", "StepDispatched")) == 1
    assert scene.named("poll", since=sent_at + 0.2) == []
    assert len(scene.named("heartbeat", since=sent_at)) >= 3
    assert scene.calls[-1].name == "unregister"
    assert scene.named("register", "poll", "complete", "unregister")[-2].name == "complete"


@check("A second signal ends the worker soon, exit code 1; nothing is reported, and what ran is given back at once",
       "O110", "O111", "O193", "O218", process=True)  # fmt: skip
@pytest.mark.promise("W5", "E7")
def test_twice(scene: Scene) -> None:
    scene.serve(session_timeout_ms=30_000)
    scene.start("one", "Hold", seconds=60)
    worker = idle(scene)
    wait_for(lambda: scene.notes("begin"), 20)
    worker.signal()
    wait_for(lambda: STOPS in worker.log())
    sent_at = worker.signal()
    assert worker.exit_code() == 1
    assert time.monotonic() - sent_at < 4
    assert scene.reports() == []
    assert scene.calls[-1].name == "unregister"
    began = time.monotonic()
    idle(scene)
    assert scene.end_of("one")["status"] == "COMPLETED"
    assert time.monotonic() - began < 15
    assert [(fields["attempt"], fields["redelivery"]) for fields in scene.assignments()] == [(1, False), (1, True)]


@check("When the session is unknown at the end, that is all right: it is not opened again", "O112", "O302")
@pytest.mark.promise("W5")
def test_unknown_at_the_end(scene: Scene) -> None:
    scene.always("unregister", refuse(404, "UNKNOWN_SESSION", "unknown worker session"))
    worker = scene.work()
    scene.wait("poll")
    assert worker.end() == 0
    threading.Event().wait(0.5)
    assert len(scene.named("unregister")) == 1
    assert len(scene.named("register")) == 1
    assert "ERROR" not in worker.log()


@check("Giving the session back is tried once, for 2 s", "O110", "O302")
@pytest.mark.promise("W5", "W10")
@pytest.mark.parametrize("reply", [hold(30), drop, unavailable, say()], ids=["hangs", "cut", "trouble", "odd"])
def test_trouble_at_the_end(scene: Scene, reply) -> None:
    scene.always("unregister", reply)
    worker = scene.work()
    scene.wait("poll")
    began = time.monotonic()
    assert worker.end() == 0
    assert time.monotonic() - began < 4
    assert len(scene.named("unregister")) == 1


@check("Results that the runtime does not take hold up the end for 5 s; the next worker sends them unchanged",
       "O134", "O189", "O325", "O336")  # fmt: skip
@pytest.mark.promise("W5", "D1", "D4")
def test_left_behind(scene: Scene) -> None:
    scene.always("complete", unavailable)
    scene.start("owed")
    first = scene.work(lambda input: {"paid": "once"}, worker_id="first")
    scene.wait("complete")
    began = time.monotonic()
    assert first.end() == 0
    assert 4.5 <= time.monotonic() - began < 9
    assert scene.calls[-1].name == "unregister"
    scene.always("complete")
    scene.work(worker_id="second")
    assert scene.end_of("owed")["output"] == {"paid": "once"}
    first_token = scene.reports()[0].fields["token"]
    wait_for(lambda: scene.reports(first_token)[-1].status == 200)
    assert len({repr(call.fields) for call in scene.reports(first_token)}) == 1


@check("A task that arrives with the signal is run to its end or given back, never dropped while its session lives",
       "O111", "O333")  # fmt: skip
@pytest.mark.promise("E7", "W5")
@pytest.mark.parametrize("late", [0.0, 0.05, 0.3])
def test_polled_at_the_end(scene: Scene, late: float) -> None:
    scene.serve(session_timeout_ms=30_000)
    worker = scene.work(lambda input: {"paid": "yes"}, concurrency=1, poll_wait_ms=20_000)
    scene.seen("poll")
    scene.script("poll", hold(late))
    worker.ask_to_end()
    scene.start("late")
    assert worker.exit_code() == 0
    scene.wait("unregister")
    wait_for(lambda: scene.view("late")["status"] == "COMPLETED" or not scene.runtime.runtime.sessions._live)
    scene.work()
    assert scene.end_of("late", 10)["status"] == "COMPLETED", "at once, not after the session timeout"


@check("A session that is lost while handlers end is opened again, and given back", "O150", "O158", "O324")
@pytest.mark.promise("W2", "W3")
def test_lost_while_draining(scene: Scene) -> None:
    scene.deliver()
    worker = scene.work(lambda input: (threading.Event().wait(2.5) and {}) or {"a": 1})
    wait_for(lambda: not scene.has_delivery)
    worker.ask_to_end()
    scene.script("heartbeat", unknown_session)
    assert worker.exit_code() == 0
    assert scene.report().name == "complete"
    first, second = (call.answer.fields["worker_session_id"] for call in scene.named("register"))
    assert [call.fields["worker_session_id"] for call in scene.named("unregister")] == [second]
    assert first != second

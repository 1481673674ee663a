"""Sessions that are lost, doubted or given back."""

import threading
import time

import pytest

from tests.conformance import http_face
from tests.conformance.observer import cut, hold, honest, lose, refuse, unknown_session
from tests.conformance.scene import Scene
from tests.conformance.table import check
from tests.processes import wait_for


def sessions(scene: Scene) -> list[str]:
    """Return the sessions that were opened, in order."""
    return [call.answer.fields["worker_session_id"] for call in scene.named("register") if call.answer]


def forget_sessions(scene: Scene) -> None:
    """Have the runtime forget every session, without a word to anybody."""
    with scene.runtime.changing() as runtime:
        for session in runtime.sessions:
            runtime.sessions.close(session, "forgotten")


@check("A poll of a lost session opens one new session, and polls go on in it", "O067", "O150")
@pytest.mark.promise("W3")
def test_lost(scene: Scene) -> None:
    scene.work(concurrency=1)
    scene.wait("poll")
    scene.script("poll", unknown_session)
    scene.wait("register", 2)
    second = sessions(scene)[1]
    wait_for(lambda: scene.named("poll")[-1].fields["worker_session_id"] == second)
    threading.Event().wait(1)
    assert len(scene.named("register")) == 2


@check(
    "However many loops and heartbeats learn at once that the session is lost, one registers", "O050", "O150", "O301"
)
@pytest.mark.promise("W3")
def test_lost_by_all(scene: Scene) -> None:
    scene.work(concurrency=8, poll_wait_ms=20_000)
    wait_for(lambda: len(scene.named("poll")) == 8)
    scene.script("register", hold(0.5))
    forget_sessions(scene)
    wait_for(lambda: len(scene.named("poll")) == 16)
    assert [call.status for call in scene.named("poll")[:8]] == [404] * 8
    threading.Event().wait(1)
    assert len(scene.named("register")) == 2
    assert {call.fields["worker_session_id"] for call in scene.named("poll")[8:]} == {sessions(scene)[1]}


@check("Whoever learns late that a session is lost takes the new one, and does not end it", "O301")
@pytest.mark.promise("W3")
def test_late_news(scene: Scene) -> None:
    scene.script("poll", *[hold(0.3, unknown_session)] * 2, *[hold(1.2, unknown_session)] * 2)
    scene.work(concurrency=4)
    wait_for(lambda: len([call for call in scene.named("poll") if call.status == 404]) == 4)
    scene.wait("poll", 4, since=time.monotonic())
    assert len(scene.named("register")) == 2
    assert scene.named("poll")[-1].fields["worker_session_id"] == sessions(scene)[1]


@check("Only the runtime's code says that a session is unknown: not its words, and not a proxy's 404", "O016", "O309")
def test_code_decides(scene: Scene) -> None:
    scene.script("poll", refuse(404, "NOT_FOUND", "unknown or expired worker session; register again"))
    scene.script("heartbeat", refuse(404, "NOT_FOUND", "unknown worker session"))
    scene.work()
    scene.wait("heartbeat", 2)
    assert len(scene.named("register")) == 1
    scene.script("heartbeat", refuse(404, "UNKNOWN_SESSION", "in other words"))
    scene.wait("register", 2)


@check("A proxy's 404 is no lost session", "O309", only="http")
def test_proxy_404(scene: Scene) -> None:
    scene.script("heartbeat", http_face.page(404))
    scene.work()
    scene.wait("heartbeat", 3)
    assert len(scene.named("register")) == 1


@check(
    "A handler is not disturbed by the loss of its session, and its result goes out under its own token", "O134", "O150"
)
def test_lost_during_a_handler(scene: Scene) -> None:
    go_on, calls = threading.Event(), []
    scene.start("kept")

    def pay(input, ctx):
        calls.append(ctx.token)
        go_on.wait(20)
        return {"paid": str(ctx.is_cancelled)}

    scene.work(pay, concurrency=1)
    wait_for(lambda: calls)
    forget_sessions(scene)
    scene.wait("register", 2)
    go_on.set()
    assert scene.end_of("kept")["output"] == {"paid": "False"}
    assert scene.report(calls[0]).answer.fields == {"accepted": True}


@check("After a restart of the runtime the worker registers by itself, and results of before and meanwhile are taken",
       "O006", "O132", "O134", "O151", "O196")  # fmt: skip
@pytest.mark.promise("D1", "D6", "W3")
def test_restart(scene: Scene) -> None:
    go_on, began = threading.Event(), []

    def pay(input):
        began.append(1)
        go_on.wait(20)
        return {"paid": "over"}

    scene.handle(pay, atomic=False)
    scene.start("one")
    scene.start("two")
    scene.work()
    wait_for(lambda: len(began) == 2)
    scene.runtime.stop()
    go_on.set()
    wait_for(lambda: len(scene.reports()) >= 2)
    threading.Event().wait(1)
    scene.runtime.start()
    for execution in ("one", "two"):
        assert scene.end_of(execution)["output"] == {"paid": "over"}
        assert len(scene.events(execution, "StepDispatched")) == 1
    scene.start("three")
    assert scene.end_of("three")["status"] == "COMPLETED"
    assert len([call for call in scene.named("register") if call.status == 200]) == 2


@check("A task in an answer that was lost, or cannot be read, comes back: its session is replaced, and given back",
       "O110", "O303", "O335")  # fmt: skip
@pytest.mark.promise("E7")
@pytest.mark.parametrize("reply", [lose, cut], ids=["lost", "cut"])
def test_lost_task(scene: Scene, reply) -> None:
    scene.serve(session_timeout_ms=30_000)
    scene.script("poll", reply)
    scene.start("lost")
    began = time.monotonic()
    scene.work(lambda input, ctx: {"paid": f"redelivery: {ctx.redelivery}"}, concurrency=1)
    assert scene.end_of("lost")["output"] == {"paid": "redelivery: True"}
    assert time.monotonic() - began < 5, "not only when the session would have expired"
    first, second = sessions(scene)
    (given_back,) = scene.wait("unregister")
    assert given_back.fields == {"worker_session_id": first}
    assert first != second


@check("Under load such a session is replaced within about one session timeout, and nothing that runs is given up",
       "O303", "O335")  # fmt: skip
@pytest.mark.promise("E7")
def test_lost_task_under_load(scene: Scene) -> None:
    go_on = threading.Event()
    scene.deliver("busy", input="wait")
    scene.handle(lambda input: go_on.wait(20) and {} if input == "wait" else {"paid": "yes"}, atomic=False)
    scene.work(poll_wait_ms=1_000)
    wait_for(lambda: not scene.has_delivery)
    began = time.monotonic()
    scene.script("poll", lose)
    scene.seen("poll", since=began)
    scene.start("lost")
    assert scene.end_of("lost")["status"] == "COMPLETED"
    assert time.monotonic() - began < 1 + 3 + 3
    assert len(scene.events("lost", "StepDispatched")) == 2
    assert scene.reports("busy") == []
    go_on.set()
    assert scene.report("busy").name == "complete"


@check("A poll that never reached the runtime casts no doubt on its session", "O303")
def test_no_doubt(scene: Scene) -> None:
    go_on = threading.Event()
    scene.deliver()
    scene.work(lambda input: go_on.wait(20) and {}, concurrency=1)
    wait_for(lambda: not scene.has_delivery)
    scene.face.close()
    go_on.set()
    threading.Event().wait(1)
    scene.face.open()
    assert scene.report()
    scene.wait("poll", 3, since=time.monotonic())
    assert len(sessions(scene)) == 1


@check("A later registration that is refused is logged and asked seldom; running work and results go on", "O313")
def test_refused_later(scene: Scene) -> None:
    go_on = threading.Event()
    scene.deliver()
    worker = scene.work(lambda input: go_on.wait(20) and {"late": 1})
    wait_for(lambda: not scene.has_delivery)
    scene.always("register", refuse(403, "FORBIDDEN", "not this worker any more"))
    forget_sessions(scene)
    scene.wait("register", 2)
    go_on.set()
    assert scene.report().fields["output"] == {"late": 1}
    threading.Event().wait(2)
    assert len(scene.named("register")) == 2
    assert "not this worker any more" in worker.log()
    scene.always("register", honest)
    wait_for(lambda: scene.named("register")[-1].status == 200, 15)
    scene.deliver("next")
    go_on.set()
    assert scene.report("next")


@check("Results need no session", "O134")
def test_results_without_a_session(scene: Scene) -> None:
    go_on = threading.Event()
    scene.deliver()
    scene.work(lambda input: go_on.wait(20) and {"a": 1})
    wait_for(lambda: not scene.has_delivery)
    scene.always("register", hold(8))
    forget_sessions(scene)
    wait_for(lambda: len(scene.named("register")) == 2)
    go_on.set()
    assert scene.report().fields["output"] == {"a": 1}
    assert scene.named("register")[1].answered_at is None
    scene.always("register", honest)

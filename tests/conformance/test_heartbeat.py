"""The pace of heartbeats, what holds them up, and what they tell."""

import threading
import time
from itertools import pairwise

import pytest

from orbit_django import TaskCancelled
from tests.conformance.observer import amend, cut, drop, hold, refuse, say, unavailable, unknown_session
from tests.conformance.scene import Scene
from tests.conformance.table import check
from tests.processes import wait_for


def gaps(scene: Scene) -> list[float]:
    return [late.at - early.at for early, late in pairwise(scene.named("heartbeat"))]


def assert_pace(scene: Scene, interval: float = 0.5) -> None:
    """Insist on the pace, on average within 30 %; one beat may be late on a busy machine."""
    found = gaps(scene)
    assert len(found) >= 3
    assert 0.7 * interval <= sum(found) / len(found) <= 1.3 * interval
    assert max(found) < 3 * interval


@check(
    "Heartbeats come at the pace of the register answer, with the session's id and nothing else",
    "O054", "O055", "O080", "O081", "O211",
)  # fmt: skip
def test_pace(scene: Scene) -> None:
    scene.work()
    beats = scene.wait("heartbeat", 5)
    registered = scene.named("register")[0]
    session = registered.answer.fields["worker_session_id"]
    assert registered.answer.fields["heartbeat_interval_ms"] == 500
    assert {tuple(beat.fields.items()) for beat in beats} == {(("worker_session_id", session),)}
    assert [beat.answer.fields for beat in beats] == [{"accepted": True, "cancel": []}] * len(beats)
    assert_pace(scene)


@check("A new session has a pace of its own", "O055")
def test_new_pace(scene: Scene) -> None:
    scene.script(
        "register", amend(heartbeat_interval_ms=60_000, session_timeout_ms=360_000), amend(heartbeat_interval_ms=300)
    )
    scene.work()
    scene.wait("poll")
    threading.Event().wait(1)
    assert scene.named("heartbeat") == []
    scene.script("poll", unknown_session)
    scene.wait("heartbeat", 5)
    assert_pace(scene, 0.3)


@check("A pace that makes no sense is mended: never above four a second, never so slow that the session ends", "O342")
@pytest.mark.parametrize(("asked", "timeout", "least", "most"), [(1, 3_000, 0.2, 0.5), (9_000, 1_200, 0.3, 0.7)])
def test_odd_pace(scene: Scene, asked: int, timeout: int, least: float, most: float) -> None:
    scene.script("register", amend(heartbeat_interval_ms=asked, session_timeout_ms=timeout))
    scene.work()
    scene.wait("heartbeat", 5)
    found = gaps(scene)
    assert least <= sum(found) / len(found) <= most


@check("A handler that keeps the processor busy for three session timeouts holds up no heartbeat",
       "O081", "O084", "O130", "O131", "O154")  # fmt: skip
@pytest.mark.promise("W1")
def test_busy_handler(scene: Scene) -> None:
    def pay(input):
        end = time.monotonic() + 4.5
        while time.monotonic() < end:
            pass
        return {"paid": "yes"}

    scene.serve(session_timeout_ms=1_500)
    scene.start("long")
    scene.work(pay, concurrency=1)
    assert scene.end_of("long")["status"] == "COMPLETED"
    assert_pace(scene)
    assert len(scene.events("long", "StepDispatched")) == 1
    assert len(scene.named("register")) == 1
    assert {call.name for call in scene.calls} == {"register", "poll", "heartbeat", "complete"}


@check("Long polls do not hold up heartbeats, nor does an idle worker lose its session", "O081", "O084")
def test_long_polls(scene: Scene) -> None:
    scene.serve(session_timeout_ms=1_000)
    scene.work(poll_wait_ms=20_000)
    scene.wait("heartbeat", 5)
    assert_pace(scene)
    assert len(scene.named("poll")) == 2
    assert len(scene.named("register")) == 1


@check("A heartbeat that hangs has a time limit of its own; polls and results go on, and heartbeats come back", "O334")
@pytest.mark.promise("W10")
def test_hanging(scene: Scene) -> None:
    scene.script("heartbeat", hold(5))
    scene.work()
    hung = wait_for(lambda: scene.named("heartbeat"))[0]
    scene.deliver()
    assert scene.report().at < hung.at + 2
    wait_for(lambda: hung.left_at)
    assert hung.left_at - hung.at < 1.5, "a third of the session timeout, and what a busy machine adds"
    later = wait_for(lambda: scene.named("heartbeat", since=hung.left_at))[0]
    assert later.at - hung.left_at < 1
    assert len(scene.named("register")) == 1
    assert hung.wire.connection not in {poll.wire.connection for poll in scene.named("poll")}


@check("Heartbeats that fail keep their pace, neither in a hot loop nor piled up", "O019", "O311")
@pytest.mark.parametrize(
    "reply", [unavailable, drop, cut, refuse(403, "FORBIDDEN")], ids=["trouble", "connection", "cut", "refused"]
)
def test_failing(scene: Scene, reply) -> None:
    scene.always("heartbeat", reply)
    scene.work()
    scene.wait("heartbeat", 3)
    scene.deliver()
    assert scene.report().name == "complete"
    assert min(gaps(scene)) > 0.3
    scene.always("heartbeat")
    back = time.monotonic()
    wait_for(lambda: [c for c in scene.named("heartbeat", since=back) if c.status == 200])
    assert len(scene.named("register")) == 1


@check(
    "A token in the answer to a heartbeat sets the flag of that attempt at once, and no other",
    "O080",
    "O082",
    "O140",
    "O142",
    "O155",
)
@pytest.mark.promise("W4")
def test_cancel(scene: Scene) -> None:
    stopped, go_on = {}, threading.Event()

    def pay(input, ctx):
        ctx.cancelled.wait(20) if ctx.token == "told" else go_on.wait(20)
        stopped[ctx.token] = (time.monotonic(), ctx.is_cancelled, ctx.cancelled.is_set())
        return {}

    scene.handle(pay, atomic=False)
    scene.deliver("told")
    scene.deliver("other")
    scene.work()
    wait_for(lambda: not scene.has_delivery)
    told_at = time.monotonic()
    scene.script("heartbeat", say(accepted=True, cancel=["nobody's", "told"]))
    assert scene.report("told").name == "complete", "a result is sent all the same"
    assert stopped["told"][1:] == (True, True)
    assert stopped["told"][0] - told_at < 1.5
    threading.Event().wait(1)
    assert "other" not in stopped
    go_on.set()
    assert scene.report("other").name == "complete"
    assert stopped["other"][1:] == (False, False)


@check(
    "A cancelled workflow reaches its handler by the next heartbeat, and waits for what the handler says",
    "O140",
    "O141",
    "O217",
)
@pytest.mark.promise("W4")
def test_cancelled_workflow(scene: Scene) -> None:
    began = threading.Event()

    def pay(input, ctx):
        began.set()
        slept = ctx.sleep(20)
        return {"paid": f"slept: {slept}"}

    scene.start("gone")
    scene.work(pay, concurrency=1)
    assert began.wait(15)
    asked_at = time.monotonic()
    scene.cancel("gone")
    assert scene.end_of("gone")["status"] == "CANCELLED"
    assert time.monotonic() - asked_at < 2
    (report,) = scene.reports()
    assert report.fields["output"] == {"paid": "slept: False"}
    told = [call for call in scene.named("heartbeat") if call.answer.fields["cancel"]]
    assert len(told) == 1, "each token is told once"


@check("A handler that stops because it was told to is reported as CANCELLED, retryable", "O186", "O331")
@pytest.mark.promise("W4")
@pytest.mark.parametrize("how", ["asks", "raises"])
def test_stops(scene: Scene, how: str) -> None:
    def pay(input, ctx):
        ctx.sleep(20)
        if how == "raises":
            raise TaskCancelled("enough")
        ctx.raise_if_cancelled()

    scene.deliver()
    scene.work(pay)
    wait_for(lambda: not scene.has_delivery)
    scene.script("heartbeat", say(accepted=True, cancel=["t-1"]))
    report = scene.report()
    assert (report.name, report.fields["error_code"], report.fields["retryable"]) == ("fail", "CANCELLED", True)


@check("A handler that does not look is not disturbed, and its result is sent at its end", "O140", "O141")
def test_not_disturbed(scene: Scene) -> None:
    scene.deliver()
    scene.work(lambda input: threading.Event().wait(2) or {"done": 1})
    wait_for(lambda: not scene.has_delivery)
    scene.script("heartbeat", say(accepted=True, cancel=["t-1"]))
    assert scene.report().fields["output"] == {"done": 1}


@check("The deadline sets the flag as well, so a lost cancel list does no harm", "O143", "O304")
@pytest.mark.promise("W4")
def test_deadline(scene: Scene) -> None:
    seen = []

    def pay(input, ctx):
        began = time.monotonic()
        seen.extend([ctx.cancelled.wait(20), time.monotonic() - began, ctx.is_cancelled, ctx.sleep(5)])
        ctx.raise_if_cancelled()

    scene.always("heartbeat", unavailable)
    scene.deliver(timeout_ms=800)
    scene.work(pay)
    report = scene.report()
    assert (report.name, report.fields["error_code"]) == ("fail", "CANCELLED")
    assert seen[0] is True
    assert 0.6 < seen[1] < 2
    assert seen[2:] == [True, False]


@check("A success that comes after the deadline is sent, and still completes the step", "O126", "O133", "O141")
def test_late_success(scene: Scene) -> None:
    scene.start("late", "PayInTime")
    scene.work(lambda input: threading.Event().wait(1.6) or {"paid": "late"}, concurrency=1)
    view = scene.end_of("late")
    assert (view["status"], view["output"]) == ("COMPLETED", {"paid": "late"})
    assert scene.events("late", "StepAttemptFailed")[0]["error"]["code"] == "TIMEOUT"


@check(
    "A heartbeat of a lost session opens one new session at once, which polls and heartbeats use from then on",
    "O083",
    "O150",
    "O219",
    "O343",
)
@pytest.mark.promise("W3")
def test_lost_session(scene: Scene) -> None:
    scene.work(poll_wait_ms=20_000)
    scene.wait("heartbeat")
    scene.script("heartbeat", unknown_session)
    _, second = scene.wait("register", 2)
    session = second.answer.fields["worker_session_id"]
    lost = next(call for call in scene.named("heartbeat") if call.status == 404)
    assert second.at - lost.at < 1, "not only when the open polls end"
    beat = wait_for(lambda: scene.named("heartbeat", since=second.answered_at))[0]
    assert beat.fields["worker_session_id"] == session
    assert len(scene.named("register")) == 2

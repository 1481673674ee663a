"""When a worker asks for tasks, how long it waits, and what it makes of the answers."""

import threading
import time
from itertools import pairwise

import pytest

from tests.conformance import http_face
from tests.conformance.observer import Call, assert_growing, drop, hold, nothing, refuse, unavailable
from tests.conformance.scene import Scene
from tests.conformance.table import check
from tests.processes import wait_for


def open_at(calls: list[Call], moment: float) -> int:
    """Return how many calls had no answer at a moment."""
    return sum(call.at <= moment < (call.answered_at or call.left_at or moment + 1) for call in calls)


@check("By default four polls are open, each for 20 s", "O005", "O061", "O180", "O182", process=True)
def test_defaults(scene: Scene) -> None:
    scene.process()
    polls = wait_for(lambda: len(found := scene.named("poll")) == 4 and found, 20)
    threading.Event().wait(0.5)
    assert len(scene.named("poll")) == 4
    session = scene.named("register")[0].answer.fields["worker_session_id"]
    assert [call.fields for call in polls] == [{"worker_session_id": session, "wait_ms": 20_000}] * 4


@check("The wait that is asked for is never 0 and never above a minute", "O061", "O328")
@pytest.mark.parametrize(("given", "sent"), [("0", 1), ("90000", 60_000)])
def test_wait(scene: Scene, given: str, sent: int) -> None:
    scene.script("poll", drop, drop)
    scene.work(poll_wait_ms=given)
    assert scene.wait("poll")[0].fields["wait_ms"] == sent


@check("After an empty answer the worker asks again at once, and logs nothing", "O062")
def test_asks_again(scene: Scene) -> None:
    worker = scene.work(concurrency=1, poll_wait_ms=400)
    polls = scene.wait("poll", 5)[:5]
    gaps = [late.at - early.answered_at for early, late in pairwise(polls)]
    assert all(call.status == 204 for call in polls)
    assert sorted(gaps)[2] < 0.15
    assert "WARNING" not in worker.log()
    assert "ERROR" not in worker.log()


@check("A runtime that answers at once with nothing is not asked in a hot loop", "O062")
def test_no_hot_loop_on_empty_answers(scene: Scene) -> None:
    scene.always("poll", nothing)
    scene.work(concurrency=1, poll_wait_ms=20_000)
    scene.wait("poll")
    threading.Event().wait(2)
    assert len(scene.named("poll")) < 8


@check(
    "Never more tasks than loops, a busy loop asks for nothing, and one poll brings one task", "O005", "O060", "O180"
)
@pytest.mark.promise("W1")
def test_backpressure(scene: Scene) -> None:
    running, most, lock = set(), [], threading.Lock()

    def pay(input, ctx):
        with lock:
            running.add(ctx.token)
            most.append(len(running))
        threading.Event().wait(0.5)
        with lock:
            running.discard(ctx.token)
        return {}

    scene.handle(pay, atomic=False)
    for number in range(9):
        scene.deliver(f"t-{number}")
    scene.work(concurrency=3, poll_wait_ms=20_000)
    wait_for(lambda: len([call for call in scene.reports() if call.answered_at]) == 9)

    polls = scene.named("poll")
    assert max(most) == 3
    assert max(open_at(polls, call.at) for call in polls) <= 3
    handed_out = sorted(call.answered_at for call in polls if call.answer and call.answer.body)
    first_report = min(call.at for call in scene.reports())
    assert open_at(polls, (handed_out[2] + first_report) / 2) == 0, "all three loops were busy"
    assert len(handed_out) == 9
    wait_for(lambda: open_at(scene.named("poll"), time.monotonic()) == 3)


@check("A poll is given 15 s more than it asked to wait, and no more", "O063", "O303")
@pytest.mark.promise("W10")
def test_patience(scene: Scene) -> None:
    scene.script("poll", hold(13.5, lambda exchange: scene.overtaking()), hold(30))
    scene.deliver("late")
    scene.work(concurrency=2, poll_wait_ms=300)
    assert scene.report("late", seconds=20).name == "complete"
    given_up = wait_for(lambda: [call for call in scene.named("poll") if call.left_at], 10)[0]
    assert 15.0 <= given_up.left_at - given_up.at < 16.5


@check("Polls that fail are repeated with growing gaps, and logged", "O019", "O311")
@pytest.mark.parametrize("kind", ["trouble", "connection"])
def test_trouble(scene: Scene, kind: str) -> None:
    scene.always("poll", unavailable if kind == "trouble" else drop)
    scene.work(concurrency=1)
    assert_growing(scene.wait("poll", 3)[:3], 0.2, 0.4)
    scene.always("poll")
    scene.deliver()
    assert scene.report().name == "complete"


@check("Refused polls are asked seldom, the refusal is told once, and results go on", "O067", "O152", "O314")
def test_refused(scene: Scene) -> None:
    go_on = threading.Event()
    scene.deliver()
    worker = scene.work(lambda input: go_on.wait(20) and {}, concurrency=4, poll_wait_ms=1_000)
    wait_for(lambda: not scene.has_delivery)
    scene.always("poll", refuse(403, "FORBIDDEN", "not this worker"))
    refused = wait_for(
        lambda: len(found := [call for call in scene.named("poll") if call.status == 403]) == 3 and found
    )
    threading.Event().wait(3)
    go_on.set()
    assert scene.report().name == "complete"
    assert len(scene.named("poll", since=refused[0].at)) <= 4, "the loop that was busy may ask as well"
    assert worker.log().count("not this worker") == 1
    assert len(scene.named("register")) == 1


@check("A poll refused in plain text is not repeated in a hot loop", "O017", "O314", only="http")
def test_refused_in_plain_text(scene: Scene) -> None:
    scene.always("poll", http_face.text(422, "missing field `wait_ms`"))
    worker = scene.work(concurrency=1)
    scene.wait("poll")
    threading.Event().wait(1.5)
    assert len(scene.named("poll")) == 1
    assert "missing field `wait_ms`" in worker.log()


@check("A poll never waits for a handler of another loop", "O180")
def test_a_failing_handler_disturbs_nobody(scene: Scene) -> None:
    go_on = threading.Event()

    def pay(input):
        if input == "wait":
            go_on.wait(20)
        if input == "fail":
            raise RuntimeError(input)
        return {}

    scene.handle(pay, atomic=False)
    scene.deliver("long", input="wait")
    for number in range(3):
        scene.deliver(f"bad-{number}", input="fail")
    scene.deliver("good")
    scene.work()
    assert [scene.report(f"bad-{number}").name for number in range(3)] == ["fail"] * 3
    assert scene.report("good").name == "complete"
    assert scene.reports("long") == []
    go_on.set()
    assert scene.report("long").name == "complete"

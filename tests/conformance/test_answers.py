"""What follows from the answer to a report: nothing, a repetition, or one small failure."""

import threading
import time
from itertools import pairwise

import pytest

from tests.conformance import http_face
from tests.conformance.observer import (
    Reply,
    accept,
    assert_growing,
    by_token,
    cut,
    drop,
    hold,
    ignore,
    lose,
    refuse,
    say,
    unavailable,
)  # fmt: skip
from tests.conformance.scene import Scene
from tests.conformance.table import check
from tests.conformance.watching import WATCHED_SECONDS, assert_never_again, bodies, fails
from tests.processes import wait_for

CONTRACT = "output violates the task contract"
DUPLICATE = "duplicate result; step already resolved"
STALE = "stale attempt"
UNKNOWN = "unknown token (execution finished or token invalid)"


@check("A report that was accepted is not sent again, nor is its answer asked after", "O092", "O120", "O121", "O340")
@pytest.mark.promise("D2")
def test_accepted(scene: Scene) -> None:
    scene.deliver()
    scene.work()
    scene.report()
    threading.Event().wait(WATCHED_SECONDS)
    assert len(scene.reports()) == 1
    assert {call.name for call in scene.calls} == {"register", "poll", "heartbeat", "complete"}


REASONS = {
    "broken": (CONTRACT, "ERROR"),
    "second": (DUPLICATE, "INFO"),
    "late": (STALE, "INFO"),
    "nobody's": (UNKNOWN, "INFO"),
    "new": ("of another kind: xyz", "WARNING"),
}


@check(
    "A report that was not accepted is final whatever the reason, also an unheard one, and is logged with it",
    "O092", "O102", "O120", "O122", "O123", "O124", "O125", "O152", "O315", "O316", "O338",
)  # fmt: skip
@pytest.mark.promise("D2")
def test_not_accepted(scene: Scene) -> None:
    replies = {token: ignore(reason) for token, (reason, _) in REASONS.items()}
    for name in ("complete", "fail"):
        scene.always(name, by_token(replies, say(accepted=False)))
    for token in (*REASONS, "silent"):
        scene.deliver(token, input="fail" if token == "late" else None)
    worker = scene.work(lambda input: fails(input) if input else {})
    for token in (*REASONS, "silent"):
        assert scene.report(token).name == ("fail" if token == "late" else "complete")
    assert_never_again(scene, len(REASONS) + 1)
    lines = [line for line in worker.log().splitlines() if "accepted=False" in line]
    assert len(lines) == len(REASONS) + 1
    for reason, level in REASONS.values():
        (line,) = (line for line in lines if reason in line)
        assert line.startswith(level)


@check(
    "An output that breaks its contract ends its step, as the runtime says, and the worker goes on",
    "O091",
    "O122",
    "O216",
)
def test_contract(scene: Scene) -> None:
    scene.start("wrong")
    worker = scene.work(lambda input: {"unpaid": 1}, concurrency=1)
    view = scene.end_of("wrong")
    assert view["error"]["code"] == "OUTPUT_CONTRACT_VIOLATION"
    assert len(scene.reports()) == 1
    wait_for(lambda: CONTRACT in worker.log())
    scene.deliver()
    assert scene.report().name == "complete"


@check(
    "After 5xx a report is sent again with the same bytes, after about 200, 400 and 800 ms",
    "O019",
    "O151",
    "O188",
    "O311",
)
@pytest.mark.promise("D1", "D4")
@pytest.mark.parametrize("name", ["complete", "fail"])
def test_5xx(scene: Scene, name: str) -> None:
    scene.script(name, refuse(500, "INTERNAL"), refuse(503, "NOT_LEADER", "ask http://leader:1"), unavailable)
    scene.deliver(input={"text": "ü"})
    scene.work(fails if name == "fail" else lambda input: {"back": input, "rate": 0.1})
    calls = scene.wait(name, 4)
    assert_growing(calls, 0.2, 0.4, 0.8)
    assert len({repr(body) for body in bodies(scene, name)}) == 1
    assert len(scene.wait(name)) == 4


@check("A proxy's 5xx with a page is as good as the runtime's", "O151", only="http")
def test_5xx_page(scene: Scene) -> None:
    scene.script("complete", http_face.page(502), http_face.text(504, "timeout"))
    scene.deliver()
    scene.work()
    assert len(scene.wait("complete", 3)) == 3


@check("The waits grow to 5 s and no further, for as long as it takes", "O188")
@pytest.mark.promise("D1")
def test_cap(scene: Scene) -> None:
    scene.script("complete", *[unavailable] * 7)
    scene.deliver()
    scene.work(concurrency=1)
    calls = scene.wait("complete", 8, seconds=35)
    gaps = [late.at - early.at for early, late in pairwise(calls)]
    assert 4.4 <= gaps[5] < 6.5
    assert 4.4 <= gaps[6] < 6.5
    assert calls[7].answer.fields == {"accepted": True}


@check("A report whose connection was refused or cut is sent again until it is answered", "O151")
@pytest.mark.promise("D1", "D6")
def test_connection(scene: Scene) -> None:
    go_on = threading.Event()

    def pay(input):
        go_on.wait(20)
        return fails(input) if input == "fail" else {}

    scene.handle(pay, atomic=False)
    for name in ("complete", "fail"):
        scene.script(name, drop)
        scene.deliver(name, input=name)
    scene.work()
    wait_for(lambda: not scene.has_delivery)
    scene.face.close()
    go_on.set()
    threading.Event().wait(0.7)
    assert scene.reports() == []
    scene.face.open()
    for name in ("complete", "fail"):
        first, second = scene.wait(name, 2)
        assert (first.fields, second.status) == (second.fields, 200)


@check("An answer that was lost, or cannot be read, is no answer: the report goes again, and `duplicate` settles it",
       "O151", "O317", "O339")  # fmt: skip
@pytest.mark.promise("D1", "D2")
@pytest.mark.parametrize("reply", [lose, cut], ids=["lost", "cut"])
def test_lost_answer(scene: Scene, reply: Reply) -> None:
    scene.script("complete", reply)
    scene.start("once")
    worker = scene.work(lambda input: {"paid": "yes"})
    first, second = scene.wait("complete", 2)
    assert first.fields == second.fields
    assert second.answer.fields["accepted"] is False
    assert scene.end_of("once")["status"] == "COMPLETED"
    assert_never_again(scene, 2)
    (line,) = (line for line in worker.log().splitlines() if "accepted=False" in line)
    assert line.startswith("INFO")


@check("A 200 that is no acknowledgement is no answer", "O339", only="http")
@pytest.mark.promise("D1")
def test_unreadable(scene: Scene) -> None:
    odd = (b"[]", b"{}", b'{"accepted":"yes"}', b"\xff", b"")
    scene.script("complete", *(http_face.raw(200, body, content_type="application/json") for body in odd[:3]))
    scene.deliver()
    scene.work()
    assert len(scene.wait("complete", 4)) == 4


@check(
    "However many results wait, a runtime that answers none is sent a few a second; one answer gives all free", "O341"
)
@pytest.mark.promise("D1", "D6")
def test_flood(scene: Scene) -> None:
    scene.always("complete", unavailable)
    for number in range(40):
        scene.deliver(f"t-{number}")
    scene.work(concurrency=4)
    wait_for(lambda: not scene.has_delivery and len(scene.reports()) >= 10, 30)
    threading.Event().wait(1)
    began = time.monotonic()
    threading.Event().wait(3)
    assert len(scene.named("complete", since=began)) <= 3 * 8 + 4
    scene.always("complete", accept)
    wait_for(lambda: len([call for call in scene.reports() if call.status == 200]) == 40, 30)


@check("A report has 10 s for its answer, then it is sent again", "O151")
@pytest.mark.promise("W10")
def test_time_limit(scene: Scene) -> None:
    scene.script("complete", hold(20, accept))
    scene.deliver()
    scene.work()
    first = wait_for(scene.reports)[0]
    wait_for(lambda: first.left_at, 15)
    assert 9.5 <= first.left_at - first.at < 11.5
    wait_for(lambda: len(scene.reports()) == 2)

"""How a worker introduces itself, and what it makes of the answer."""

import re
import socket

import pytest

from tests.conformance import http_face
from tests.conformance.observer import (
    amend,
    assert_growing,
    cut,
    drop,
    hold,
    lose,
    refuse,
    unavailable,
    unknown_session,
)
from tests.conformance.scene import Scene
from tests.conformance.table import check
from tests.processes import wait_for

REFUSALS = {
    "invalid": (refuse(400, "INVALID_REQUEST", "no contracts, it says"), "no contracts, it says"),
    "reserved": (refuse(400, "RESERVED_TASK", "a child workflow"), "RESERVED_TASK"),
    "forbidden": (refuse(403, "FORBIDDEN", "belongs to ruby-1"), "belongs to ruby-1"),
    "credential": (refuse(401, "UNAUTHENTICATED", "no such token"), "no such token"),
}


@check(
    "The first call registers, with all its fields, and nothing else is asked before its answer", "O007", "O050", "O052"
)
def test_first_call(scene: Scene) -> None:
    scene.script("register", hold(0.6))
    scene.handle(lambda input: {}, "shop.ship", "2.0.0")
    scene.work(lambda input: {})
    scene.wait("poll")

    first, second = scene.calls[:2]
    assert first.name == "register"
    assert second.at >= (first.answered_at or 0)
    fields = dict(first.fields)
    assert isinstance(fields.pop("sdk"), str)
    contracts = [("shop.pay", "1.0.0"), ("shop.ship", "2.0.0")]
    announced = [{"task_name": name, "contract_version": version} for name, version in contracts]
    assert fields == {"worker_id": "watched-1", "runtime": "python", "contracts": announced}


@check("Names and versions are announced as they were declared, each pair once, versions of one task side by side",
       "O059", "O156", "O330", "O337")  # fmt: skip
def test_pairs(scene: Scene) -> None:
    odd = [("shop.pay", "1.0.0"), ("shop.pay", "2.0.0-beta+7"), ("Größe_1/π", "v"), ("a" * 300, "0")]
    for name, version in odd:
        scene.handle(lambda input: {}, name, version)
    scene.work()
    (call,) = scene.wait("register")

    announced = [(pair["task_name"], pair["contract_version"]) for pair in call.fields["contracts"]]
    assert sorted(announced) == sorted(odd)


@check("Of two versions of one task each delivery runs the one that it names", "O330")
def test_handler_by_pair(scene: Scene) -> None:
    scene.handle(lambda input: {"ran": 2}, version="2.0.0")
    scene.deliver("one")
    scene.deliver("two", contract_version="2.0.0")
    scene.work(lambda input: {"ran": 1})

    assert scene.report("one").fields["output"] == {"ran": 1}
    assert scene.report("two").fields["output"] == {"ran": 2}


@check("The language announced is python unless a setting says otherwise", "O053", "O183")
@pytest.mark.parametrize("runtime", [None, "Ruby"])
def test_language(scene: Scene, runtime: str | None) -> None:
    scene.work(runtime=runtime)
    assert scene.wait("register")[0].fields["runtime"] == (runtime or "python")


@check("Without a worker id in the settings it is made of host and process", "O195", process=True)
def test_default_worker_id(scene: Scene) -> None:
    worker = scene.process()
    (call,) = scene.wait("register")
    assert call.fields["worker_id"] == f"python-{socket.gethostname()}-{worker.process.pid}"


@check("A blank worker id never reaches the runtime: one line, exit code 2", "O052", process=True)
@pytest.mark.promise("W8")
def test_blank_worker_id(scene: Scene) -> None:
    worker = scene.process("--worker-id", "  ")
    assert worker.exit_code(20) == 2
    assert scene.calls == []
    assert len(worker.log().splitlines()) == 1
    assert "WORKER_ID" in worker.log()


@check("A worker without a task does not call: one line, exit code 2", "O058", process=True)
@pytest.mark.promise("W8")
def test_no_task(scene: Scene) -> None:
    worker = scene.process(tasks="", **scene.project())
    assert worker.exit_code(20) == 2
    assert scene.calls == []
    assert worker.log().startswith("CommandError: no tasks to serve")


@check("A handler under a reserved name is refused before any call, naming the handler", "O057", process=True)
@pytest.mark.promise("W8")
def test_reserved_name(scene: Scene) -> None:
    handlers = (
        '@task("orbit.http", version="1")\ndef mine(input): ...\n@task("shop.pay", version="1")\ndef pay(input): ...\n'
    )
    worker = scene.process(tasks="", **scene.project(handlers))
    assert worker.exit_code(20) == 2
    assert scene.calls == []
    assert re.search(r"app\.tasks_orbit\.mine.*'orbit\.http' is reserved", worker.log())


@check(
    "A refused first registration is not repeated: code and text on one line, exit code 2",
    "O018",
    "O036",
    "O057",
    "O152",
    "O313",
)
@pytest.mark.promise("W8")
@pytest.mark.parametrize("kind", REFUSALS)
def test_refused(scene: Scene, kind: str) -> None:
    reply, words = REFUSALS[kind]
    scene.always("register", reply)
    code, line = scene.command()
    assert code == 2
    assert [call.name for call in scene.calls] == ["register"]
    assert words in line
    assert len(line.splitlines()) == 1


@check("A refused credential is in no line of the log", "O018", "O152", process=True)
@pytest.mark.promise("W8", "W9")
def test_refused_credential(scene: Scene) -> None:
    scene.always("register", refuse(401, "UNAUTHENTICATED", "no such token: tok-SECRET-93"))
    worker = scene.process(ORBIT_WORKER_TOKEN="tok-SECRET-93")
    assert worker.exit_code(20) == 2
    assert [call.name for call in scene.calls] == ["register"]
    assert "401 UNAUTHENTICATED" in worker.log()
    assert "Traceback" not in worker.log()
    assert "SECRET" not in worker.log()


@check("A registration refused in plain text is a mistake like any other, and the text is shown", "O017", only="http")
@pytest.mark.promise("W8")
def test_refused_in_plain_text(scene: Scene) -> None:
    scene.always("register", http_face.text(422, "missing field `runtime`"))
    code, line = scene.command()
    assert code == 2
    assert len(scene.calls) == 1
    assert "missing field `runtime`" in line


@check("A runtime in trouble at the start is waited for, longer each time", "O019", "O311")
def test_trouble_at_the_start(scene: Scene) -> None:
    scene.script("register", unavailable, drop, refuse(500, "INTERNAL"))
    scene.work()
    scene.wait("poll")

    assert_growing(scene.named("register"), 0.2, 0.4, 0.8)


@check("A registration whose answer was lost, or cannot be read, is made again, and the session that was told is used",
       "O050", "O311")  # fmt: skip
def test_lost_answers(scene: Scene) -> None:
    scene.script("register", lose, cut)
    scene.work()
    poll = scene.seen("poll")[0]
    calls = scene.named("register")
    assert len(calls) == 3
    assert poll.fields["worker_session_id"] == calls[2].answer.fields["worker_session_id"]


@check("Passing refusals at the start are waited out", "O313", only="http")
def test_passing_refusal(scene: Scene) -> None:
    scene.script("register", *(http_face.page(status) for status in (408, 425, 429)))
    scene.work()
    scene.wait("poll")
    assert len(scene.named("register")) == 4


@check("A standby that names its leader is waited for; no call goes to an address from an answer", "O312")
def test_not_leader(scene: Scene) -> None:
    leader = Scene.face_of(scene.binding)
    refusal = refuse(503, "NOT_LEADER", f"the leader is {leader.url}")
    for name in ("register", "poll", "heartbeat", "complete"):
        scene.script(name, refusal, refusal)
    scene.deliver()
    scene.work()
    assert scene.report()
    wait_for(lambda: len(scene.reports()) == 3)
    leader.close()
    assert leader.observer.calls == []


@check("Warnings are logged and do not stop the worker", "O056", "O156")
def test_warnings(scene: Scene) -> None:
    scene.script("register", amend(warnings=["first warning", "second warning: no workflow uses 9.9"]))
    worker = scene.work()
    scene.wait("poll", 2)
    assert "first warning" in worker.log()
    assert "second warning: no workflow uses 9.9" in worker.log()


@check("The runtime's own warning of a version that no workflow uses is logged", "O056")
def test_real_warning(scene: Scene) -> None:
    scene.handle(lambda input: {}, version="7.0.0")
    worker = scene.work()
    scene.wait("poll")
    assert "this worker will not receive those tasks" in worker.log()


@check("Each loss of a session opens one new session under the same name, language and contracts", "O050", "O059")
def test_registers_alike(scene: Scene) -> None:
    scene.handle(lambda input: {}, "shop.ship", "2.0.0")
    scene.work(runtime="Ruby")
    scene.wait("poll")
    scene.script("poll", unknown_session)
    first, second = scene.wait("register", 2)
    assert first.fields == second.fields
    assert first.answer.fields["worker_session_id"] != second.answer.fields["worker_session_id"]


@check("Several workers may use one worker id, each in a session of its own", "O051", "O184")
def test_one_id_for_two(scene: Scene) -> None:
    first = scene.work()
    scene.wait("poll")
    scene.work()
    (one, two) = (call.answer.fields["worker_session_id"] for call in scene.wait("register", 2))
    wait_for(lambda: {call.fields["worker_session_id"] for call in scene.named("poll")} == {one, two})
    first.end()
    assert [call.fields["worker_session_id"] for call in scene.named("unregister")] == [one]


@check("Times that come as texts are read as numbers", "O329")
def test_times_as_texts(scene: Scene) -> None:
    scene.script("register", amend(heartbeat_interval_ms="500", session_timeout_ms="3000"))
    seen = []
    scene.deliver(timeout_ms="60000", deadline_ms="1794736057501", attempt="2")
    scene.work(lambda input, ctx: seen.append((ctx.timeout_ms, ctx.attempt, ctx.deadline.timestamp())) or {})
    assert scene.report().name == "complete"
    assert seen == [(60_000, 2, 1794736057.501)]
    first, second = (call.at for call in scene.wait("heartbeat", 2)[:2])
    assert 0.35 <= second - first <= 0.8

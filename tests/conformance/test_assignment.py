"""What comes with a task, and what a handler is given of it."""

import time
from datetime import UTC, datetime

from tests.conformance.observer import Reply, say
from tests.conformance.scene import Scene
from tests.conformance.table import check

NAMES = ("execution_id", "workflow", "workflow_version", "step_id", "task_name", "contract_version",
         "idempotency_key", "attempt", "redelivery", "timeout_ms", "token")  # fmt: skip


@check(
    "A handler is called once, with the input and every field exactly as they were sent",
    "O070", "O071", "O073", "O074", "O075", "O076", "O077", "O194", "O210", "O212",
)  # fmt: skip
def test_fields(scene: Scene) -> None:
    seen = []

    def pay(input, ctx):
        deadline_ms = round(ctx.deadline.timestamp() * 1000)
        seen.append({"input": input, "deadline_ms": deadline_ms} | {name: getattr(ctx, name) for name in NAMES})
        return {}

    sent = scene.deliver(
        "any text / ü is a token",
        attempt=3,
        redelivery=True,
        timeout_ms=60_000,
        deadline_ms=1794736057501,
        idempotency_key="k/ü",
    )
    scene.work(pay)
    assert scene.report(sent["token"]).name == "complete"
    assert seen == [sent]


VALUES = [None, True, 0, -1.5, "", "x", [], [[1], {"a": None}], {}, {"": {"b": [None]}}]
ECHOES = ["Zoë 日本 \U0001f600 \x00 \u2028", {"a": {"b": [{"c": [1, [2, [3]]]}]}}, 2**53, -(2**53), 0.1, 1e300]
LARGE = [2**53 + 1, -(2**63) - 1, 10**40]


@check("Every JSON value is an input, and is handed on as it is", "O074")
def test_any_input(scene: Scene) -> None:
    seen = {}

    def pay(input, ctx):
        seen[ctx.token] = input
        return {}

    for number, value in enumerate(VALUES):
        scene.deliver(f"t-{number}", input=value)
    scene.work(pay)
    for number, value in enumerate(VALUES):
        assert scene.report(f"t-{number}").name == "complete"
        assert repr(seen[f"t-{number}"]) == repr(value)


@check("A task without deadline and timeout has none in its context", "O078")
def test_no_deadline(scene: Scene) -> None:
    seen = []
    scene.deliver()
    scene.work(lambda input, ctx: seen.append((ctx.deadline, ctx.timeout_ms, ctx.remaining_ms, ctx.is_cancelled)) or {})
    assert scene.report().name == "complete"
    assert seen == [(None, None, None, False)]


STEPS = ["s", "s[2]", "compensate:s", "compensate:s[0]", "on_failure:s", "on_cancel:s", "on_timeout:s"]


@check("Steps of every form run, under the name that they came with", "O072")
def test_step_ids(scene: Scene) -> None:
    for step in STEPS:
        scene.deliver(step, step_id=step)
    scene.work(lambda input, ctx: {"step": ctx.step_id})
    assert [scene.report(step).fields["output"] for step in STEPS] == [{"step": step} for step in STEPS]


@check("The time that remains counts down from the timeout and ends at nothing", "O079", "O197")
def test_remaining(scene: Scene) -> None:
    seen = []

    def pay(input, ctx):
        seen.append(ctx.remaining_ms)
        ctx.sleep(30)
        seen.append(ctx.remaining_ms)
        return {}

    scene.deliver(timeout_ms=700)
    scene.work(pay)
    assert scene.report().name == "complete"
    assert 500 <= seen[0] <= 700
    assert seen[1] == 0


def a_deadline_long_past() -> dict[str, int]:
    return {"deadline_ms": 1_000_000_000_000, "timeout_ms": 60_000}


@check("The timeout is measured here, so a runtime whose clock is hours behind changes nothing", "O323")
def test_skewed_clock(scene: Scene) -> None:
    seen = []
    scene.deliver(**a_deadline_long_past())
    scene.work(lambda input, ctx: seen.append((ctx.is_cancelled, ctx.remaining_ms)) or {})
    assert scene.report().name == "complete"
    assert seen[0][0] is False
    assert 50_000 < seen[0][1] <= 60_000


@check("A deadline that comes alone counts by the clock on the wall", "O323")
def test_deadline_alone(scene: Scene) -> None:
    seen = []
    scene.deliver(deadline_ms=int(time.time() * 1000) + 20_000)
    scene.work(lambda input, ctx: seen.append((ctx.remaining_ms, ctx.deadline)) or {})
    assert scene.report().name == "complete"
    assert 10_000 < seen[0][0] <= 20_000
    assert seen[0][1] > datetime.now(UTC)


PAST = [{"deadline_ms": 1}, {"deadline_ms": 1, "timeout_ms": 0}, {"timeout_ms": 1}]


@check("A task whose deadline has passed is run and reported all the same", "O323")
def test_deadline_past(scene: Scene) -> None:
    for number, fields in enumerate(PAST):
        scene.deliver(f"t-{number}", **fields)
    scene.work(lambda input: {"ran": True})
    for number in range(len(PAST)):
        report = scene.report(f"t-{number}")
        assert (report.name, report.fields["output"]) == ("complete", {"ran": True})


@check("Letters of every script, deep nesting and numbers come back unchanged", "O074")
def test_echo(scene: Scene) -> None:
    for number, value in enumerate(ECHOES):
        scene.deliver(f"t-{number}", input={"v": value})
    scene.work(lambda input: input)
    for number, value in enumerate(ECHOES):
        assert repr(scene.report(f"t-{number}").fields["output"]) == repr({"v": value})


@check("Whole numbers beyond 2^53 stay exact", "O329", only="http")
def test_large_numbers(scene: Scene) -> None:
    for number in LARGE:
        scene.deliver(str(number), input={"n": number})
    scene.work(lambda input: {"n": input["n"], "more": input["n"] + 1})
    for number in LARGE:
        assert scene.report(str(number)).fields["output"] == {"n": number, "more": number + 1}


def strange(reply: Reply) -> Reply:
    """Add fields that nobody has heard of to an answer that has fields."""

    def stranger(exchange):
        answer = reply(exchange)
        return say(**answer.fields, unheard_of={"x": [1]}, zzz=None)(exchange) if answer.body else answer

    return stranger


@check("Unknown fields in any answer are ignored", "O012")
def test_unknown_fields(scene: Scene) -> None:
    for name in ("register", "heartbeat", "complete", "unregister"):
        scene.always(name, strange(lambda exchange: exchange.forward()))
    scene.deliver("t-2", unheard_of={"x": 1}, contract={"version": "9"})
    scene.always("complete", strange(say(accepted=True)))
    worker = scene.work()
    assert scene.report("t-2").name == "complete"
    scene.wait("heartbeat", 2)
    assert worker.end() == 0
    assert len(scene.named("register")) == 1
    assert len(scene.reports()) == 1
    assert "ERROR" not in worker.log()

"""Declarations that are made in Python."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from orbit_django.contracts import ANY, LIST, STRING, Call, Catalog, Literal, Reference, Step, TaskContract, Workflow
from orbit_django.exceptions import ContractSyntaxError

TASK = TaskContract("a.task", "1", {"x": STRING}, {"y": STRING, "z": ANY})
X = {"x": Literal("x")}
STEP = Step(name="s", task_name="a.task", arguments=X)


def flow(*steps: Step, **more: Any) -> Workflow:
    return Workflow(name="F", version="1", input={"items": LIST, "word": STRING, "thing": ANY}, steps=steps, **more)


def refusal(workflow: Workflow) -> str:
    with pytest.raises(ContractSyntaxError) as caught:
        Catalog().declare([TASK], [workflow])
    return str(caught.value).removeprefix("<python>:0:0: ")


def using(text: str, **more: Any) -> Step:
    return replace(STEP, arguments={"x": Reference.to(text)}, **more)


@pytest.mark.parametrize(
    ("workflow", "said"),
    [
        (flow(replace(STEP, name="a:b")), "a step cannot be called `a:b`: no colon, no brackets"),
        (flow(replace(STEP, name="a[1]")), "a step cannot be called `a[1]`: no colon, no brackets"),
        (flow(replace(STEP, name="$item")), "a step cannot be called `$item`"),
        (flow(STEP, STEP), "workflow F has two steps called `s`"),
        (flow(replace(STEP, each=Reference.to("input.word"))), "`each` must be List, this is String"),
        (flow(replace(STEP, each=Literal(5))), "`each` must be List, this is Int"),
        (flow(using("$item")), "there is no step `$item` in workflow F; known are `input`, `s`"),
        (flow(using("input.items.name")), "`input.items` is a list and has no fields"),
        (flow(using("input.items")), "`x` must be String, this is List"),
        (
            flow(using("t.y"), replace(STEP, name="t", each=Reference.to("input.items"))),
            "`t` is a list and has no fields",
        ),
        (flow(STEP, on_failure=(using("$failure.no"),)), "`$failure` has no field `no`; known are `code`, `message`, "),
        (flow(STEP, on_failure=(using("no.y"),)), "there is no step `no` in workflow F; known are "),
        (
            flow(STEP, on_cancel=(replace(STEP, each=Reference.to("input.items")),)),
            "step `s` of a handler can neither fan out nor be undone",
        ),
        (
            flow(STEP, on_timeout=(using("u.y", name="t"), using("t.y", name="u"))),
            "these steps wait for each other: `t`, `u`",
        ),
        (
            flow(replace(STEP, compensation=Call(task_name="a.tsk"))),
            "no task `a.tsk` is declared; did you mean `a.task`?",
        ),
        (
            flow(replace(STEP, compensation=Call(task_name="a.task"))),
            "the input of `a.task` needs a field `x` of type ",
        ),
    ],
)
def test_what_makes_no_sense(workflow: Workflow, said: str) -> None:
    assert refusal(workflow).startswith(said)


def test_what_each_expression_can_name() -> None:
    undo = Call(task_name="a.task", arguments={"x": Reference.to("s.y")}, idempotency_key=Reference.to("$item.id"))
    steps = (
        using("$item.deep.er", each=Reference.to("input.items"), compensation=undo),
        using("input.thing.any.thing", name="t"),
    )
    told = using("$failure.code", name="t")
    closed = using("t.y", name="close")
    catalog = Catalog()
    catalog.declare([TASK], [flow(*steps, on_failure=(closed, told), on_timeout=(told,))])
    linked = catalog.workflow("F")

    assert [step.name for step in linked.on_failure] == ["t", "close"], "the handler's own `t` is meant"
    assert set(linked.contracts) == {"s", "t", "compensate:s", "on_failure:t", "on_failure:close", "on_timeout:t"}
    assert linked.calls["compensate:s"] is undo


def test_a_fingerprint_tells_every_difference() -> None:
    changes: list[dict[str, Any]] = [
        {},
        {"timeout_ms": 5},
        {"on_failure": (STEP,)},
        {"on_cancel": (STEP,)},
        {"steps": (replace(STEP, queue_timeout_ms=5),)},
        {"steps": (replace(STEP, each=Literal([])),)},
        {"steps": (replace(STEP, compensation=Call(task_name="a.task", arguments=X)),)},
        {"contracts": {"s": replace(TASK, defaults={"y": "1"})}},
    ]

    assert len({replace(flow(STEP), **change).definition_hash for change in changes}) == len(changes)


@pytest.mark.parametrize(
    ("output", "filled"),
    [(None, {"y": "d"}), ({"z": 1}, {"y": "d", "z": 1}), ({"y": "own"}, {"y": "own"}), ([1], [1])],
)
def test_defaults_fill_in_what_an_output_lacks(output: Any, filled: Any) -> None:
    assert replace(TASK, defaults={"y": "d"}).fill_in(output) == filled


def test_the_example_of_the_documentation() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "contracts.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    catalog = Catalog()
    exec(example, {"runtime": catalog})  # noqa: S102 (our own page)

    assert [step.name for step in catalog.workflow("Pack").steps] == ["pack"]

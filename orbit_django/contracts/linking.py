"""Give a parsed workflow its meaning: find its contracts, check its references, order its steps.

Every error names the place of the word that is wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from orbit_django.contracts.declarations import (
    ANY,
    FAILURE,
    INPUT,
    ITEM,
    LIST,
    STRING,
    Call,
    Reference,
    Shape,
    Step,
    TaskContract,
    Workflow,
)
from orbit_django.contracts.names import instead
from orbit_django.contracts.references import Owner, Scope, check_fields, check_type
from orbit_django.contracts.units import COMPENSATE, HANDLERS, Unit

_RESERVED = (INPUT, ITEM, FAILURE)
_FAILURE: Shape = {"reason": STRING, "code": STRING, "message": STRING}


def link(workflow: Workflow, tasks: Mapping[str, TaskContract]) -> Workflow:
    """Return the workflow with its contracts and its steps in order, or raise ContractSyntaxError.

    ``tasks`` holds the contract that each task name means to this workflow.
    """
    for prefix in ("", *HANDLERS):
        _check_names(workflow, workflow.block(prefix))
    linked = replace(workflow, contracts={name: _contract(call, tasks) for name, call in workflow.calls.items()})
    own = Scope(workflow.name, {INPUT: workflow.input, **_outputs(linked, "")})
    for step in workflow.steps:
        _check_step(step, linked.contracts[step.name], own)
        if step.compensation:
            undoing = own.beside(_item(step) | {step.name: linked.contracts[step.name].output})
            _check_call(step.compensation, linked.contracts[COMPENSATE + step.name], undoing)
    check_fields(workflow.result, workflow.output, own, Owner("the output of the workflow", workflow.at))
    for prefix in HANDLERS:
        scope = own.beside({FAILURE: _FAILURE, **_outputs(linked, prefix)})
        for step in workflow.block(prefix):
            _check_handler(step, linked.contracts[prefix + step.name], scope)
    return replace(
        linked,
        steps=_ordered(workflow.steps),
        on_failure=_ordered(workflow.on_failure),
        on_cancel=_ordered(workflow.on_cancel),
        on_timeout=_ordered(workflow.on_timeout),
    )


def _check_names(workflow: Workflow, steps: Iterable[Step]) -> None:
    names: set[str] = set()
    for step in steps:
        if step.name in _RESERVED:
            raise step.at.error(f"a step cannot be called `{step.name}`")
        if Unit.parse(step.name) != Unit(step.name):
            raise step.at.error(f"a step cannot be called `{step.name}`: no colon, no brackets")
        if step.name in names:
            raise step.at.error(f"workflow {workflow.name} has two steps called `{step.name}`")
        names.add(step.name)


def _contract(call: Call, tasks: Mapping[str, TaskContract]) -> TaskContract:
    if call.task_name not in tasks:
        raise call.task_at.error(f"no task `{call.task_name}` is declared{instead(call.task_name, tasks)}")
    return tasks[call.task_name]


def _outputs(linked: Workflow, prefix: str) -> dict[str, Shape | str]:
    """Return what the names of a block's steps stand for: an output, or a list of them."""
    return {
        step.name: linked.contracts[prefix + step.name].output if step.each is None else LIST
        for step in linked.block(prefix)
    }


def _item(step: Step) -> dict[str, Shape | str]:
    return {} if step.each is None else {ITEM: ANY}


def _check_step(step: Step, contract: TaskContract, scope: Scope) -> None:
    if step.each is not None:
        check_type(step.each, LIST, "each", scope)
    _check_call(step, contract, scope.beside(_item(step)))


def _check_handler(step: Step, contract: TaskContract, scope: Scope) -> None:
    if step.each is not None or step.compensation is not None:
        raise step.at.error(f"step `{step.name}` of a handler can neither fan out nor be undone")
    _check_call(step, contract, scope)


def _check_call(call: Call, contract: TaskContract, scope: Scope) -> None:
    owner = Owner(f"the input of `{call.task_name}`", call.task_at)
    check_fields(call.arguments, contract.input, scope, owner)
    if call.idempotency_key is not None:
        check_type(call.idempotency_key, STRING, "idempotency_key", scope)


def _ordered(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """Order steps so that each follows those of its block that it needs, otherwise as written."""
    names = {step.name for step in steps}
    ordered: list[Step] = []
    done: set[str] = set()
    waiting = list(steps)
    while waiting:
        free = [step for step in waiting if step.needs() & names <= done]
        if not free:
            blocked = ", ".join(f"`{step.name}`" for step in waiting)
            raise _first_blocked(waiting).at.error(f"these steps wait for each other: {blocked}")
        ordered += free
        done |= {step.name for step in free}
        waiting = [step for step in waiting if step not in free]
    return tuple(ordered)


def _first_blocked(waiting: list[Step]) -> Reference:
    names = {step.name for step in waiting}
    return next(reference for step in waiting for reference in step.references() if reference.source in names)

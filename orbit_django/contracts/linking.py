"""Give a parsed workflow its meaning: find its contracts, check its references, order its steps.

Every error names the place of the word that is wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from orbit_django.contracts.declarations import (
    FLOAT,
    INPUT,
    INT,
    STRING,
    Expression,
    Literal,
    Reference,
    Shape,
    Step,
    TaskContract,
    Workflow,
)
from orbit_django.contracts.lexer import Position
from orbit_django.contracts.names import instead
from orbit_django.contracts.validation import find_mismatch, type_name


def link(workflow: Workflow, tasks: Mapping[str, TaskContract]) -> Workflow:
    """Return the workflow with its contracts and its steps in order, or raise ContractSyntaxError.

    ``tasks`` holds the contract that each task name means to this workflow.
    """
    contracts: dict[str, TaskContract] = {}
    for step in workflow.steps:
        if step.name == INPUT:
            raise step.at.error("a step cannot be called `input`")
        if step.name in contracts:
            raise step.at.error(f"workflow {workflow.name} has two steps called `{step.name}`")
        if step.task_name not in tasks:
            raise step.task_at.error(f"no task `{step.task_name}` is declared{instead(step.task_name, tasks)}")
        contracts[step.name] = tasks[step.task_name]
    linked = replace(workflow, contracts=contracts)
    for step in workflow.steps:
        _check_step(step, linked)
    _check_fields(workflow.result, workflow.output, linked, _Owner("the output of the workflow", workflow.at))
    return replace(linked, steps=_ordered(workflow))


class _Owner:
    """Whose fields are checked, for the messages."""

    def __init__(self, name: str, at: Position) -> None:
        self.name = name
        self.at = at


def _check_step(step: Step, workflow: Workflow) -> None:
    owner = _Owner(f"the input of `{step.task_name}`", step.task_at)
    _check_fields(step.arguments, workflow.contracts[step.name].input, workflow, owner)
    if step.idempotency_key is not None:
        _check_type(step.idempotency_key, STRING, "idempotency_key", workflow)


def _check_fields(given: Mapping[str, Expression], shape: Shape, workflow: Workflow, owner: _Owner) -> None:
    for name, expression in given.items():
        if name not in shape:
            raise expression.at.error(f"{owner.name} has no field `{name}`{instead(name, shape)}")
        _check_type(expression, shape[name], name, workflow)
    for name, wanted in shape.items():
        if name not in given:
            raise owner.at.error(f"{owner.name} needs a field `{name}` of type {wanted}, which is not given")


def _check_type(expression: Expression, wanted: str, name: str, workflow: Workflow) -> None:
    if isinstance(expression, Literal):
        if find_mismatch({name: expression.value}, {name: wanted}) is None:
            return
        found = type_name(expression.value)
    else:
        found = _type_of(expression, workflow)
        # Which numbers are whole is seen when the value is there.
        if found == wanted or {found, wanted} == {INT, FLOAT}:
            return
    raise expression.at.error(f"`{name}` must be {wanted}, this is {found}")


def _type_of(reference: Reference, workflow: Workflow) -> str:
    if reference.source == INPUT:
        shape = workflow.input
    elif reference.source in workflow.contracts:
        shape = workflow.contracts[reference.source].output
    else:
        raise reference.at.error(
            f"there is no step `{reference.source}` in workflow {workflow.name}"
            + instead(reference.source, (INPUT, *workflow.contracts))
        )
    if not reference.path:
        raise reference.at.error(f"`{reference}` must name a field, such as `{reference}.{next(iter(shape), 'name')}`")
    field, *deeper = reference.path
    if field not in shape:
        raise reference.at.error(f"`{reference.source}` has no field `{field}`{instead(field, shape)}")
    if deeper:
        raise reference.at.error(f"`{reference.source}.{field}` is {shape[field]} and has no fields")
    return shape[field]


def _ordered(workflow: Workflow) -> tuple[Step, ...]:
    """Order steps so that each follows those it needs, otherwise as written."""
    ordered: list[Step] = []
    done: set[str] = set()
    waiting = list(workflow.steps)
    while waiting:
        free = [step for step in waiting if step.needs() <= done]
        if not free:
            names = ", ".join(f"`{step.name}`" for step in waiting)
            raise _first_blocked(waiting).at.error(f"these steps wait for each other: {names}")
        ordered += free
        done |= {step.name for step in free}
        waiting = [step for step in waiting if step not in free]
    return tuple(ordered)


def _first_blocked(waiting: list[Step]) -> Reference:
    names = {step.name for step in waiting}
    return next(reference for step in waiting for reference in step.references() if reference.source in names)

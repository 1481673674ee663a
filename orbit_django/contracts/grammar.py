"""Read tokens into declarations: the grammar of the `.orbit` subset and nothing about its meaning.

Fields are separated by a comma or by a new line; the clauses of a block may stand in any order, each once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from orbit_django.contracts.declarations import (
    TYPES,
    Expression,
    Literal,
    Reference,
    RetryPolicy,
    Shape,
    Step,
    TaskContract,
    Workflow,
)
from orbit_django.contracts.reader import Reader
from orbit_django.exceptions import ContractSyntaxError

_CONSTANTS = {"true": True, "false": False, "null": None}
_BACKOFFS = {"fixed": False, "exponential": True}
_POLICY_FIELDS = {"backoff": "is_exponential", "initial_delay": "initial_delay_ms"}


def parse(text: str, file: str) -> tuple[list[TaskContract], list[Workflow]]:
    """Return the tasks and the workflows (not linked yet) that a file declares, or raise ContractSyntaxError."""
    reader = Reader(text, file)
    tasks: list[TaskContract] = []
    workflows: list[Workflow] = []
    while reader.token.kind != "end":
        if reader.take_word("task"):
            tasks.append(_task(reader))
        elif reader.take_word("workflow"):
            workflows.append(_workflow(reader))
        else:
            raise reader.unexpected("`task` or `workflow`")
    return tasks, workflows


def _task(reader: Reader) -> TaskContract:
    name = reader.expect("string", "the task's name in quotes")
    clauses = reader.block({"version": _version, "input": _shape, "output": _shape}, f'task "{name.value}"')
    clauses.require("version", name.at)
    return TaskContract(
        name.value, clauses.get("version"), clauses.get("input", {}), clauses.get("output", {}), name.at
    )


def _workflow(reader: Reader) -> Workflow:
    name = reader.expect("name", "the workflow's name")
    steps: list[Step] = []
    known: dict[str, Callable[[Reader], Any]] = {
        "version": _version,
        "input": _shape,
        "output": _shape,
        "step": lambda inner: steps.append(_step(inner)),
        "return": _arguments,
    }
    clauses = reader.block(known, f"workflow {name.text}", repeated="step")
    clauses.require("version", name.at)
    clauses.require("return", name.at)
    return Workflow(
        name=name.text,
        version=clauses.get("version"),
        input=clauses.get("input", {}),
        output=clauses.get("output", {}),
        steps=tuple(steps),
        result=clauses.get("return"),
        at=name.at,
    )


def _step(reader: Reader) -> Step:
    name = reader.expect("name", "the step's name")
    known: dict[str, Callable[[Reader], Any]] = {
        "worker": lambda inner: inner.expect("string", "the task's name in quotes"),
        "using": lambda inner: inner.expect("name", "a language, or `any`").text,
        "with": _arguments,
        "timeout": lambda inner: _positive(inner.expect("duration", "a duration such as `30s`")),
        "retry": _retry,
        "idempotency_key": _key,
    }
    clauses = reader.block(known, f"step {name.text}")
    clauses.require("worker", name.at)
    task, using = clauses.get("worker"), clauses.get("using", "any").lower()
    return Step(
        name=name.text,
        task_name=task.value,
        using=None if using == "any" else using,
        arguments=clauses.get("with", {}),
        timeout_ms=clauses.get("timeout", None),
        retry=clauses.get("retry", RetryPolicy()),
        idempotency_key=clauses.get("idempotency_key", None),
        at=name.at,
        task_at=task.at,
    )


def _version(reader: Reader) -> str:
    token = reader.expect("string", "a version in quotes")
    if not token.value:
        raise token.at.error("a version must not be empty")
    return str(token.value)


def _shape(reader: Reader) -> Shape:
    return reader.fields(lambda name: _type(reader))


def _type(reader: Reader) -> str:
    token = reader.expect("name", "a type")
    if token.text not in TYPES:
        raise token.at.error(f"unknown type `{token.text}`; the types read here are {', '.join(TYPES)}")
    return token.text


def _arguments(reader: Reader) -> dict[str, Expression]:
    return reader.fields(lambda name: _expression(reader))


def _expression(reader: Reader) -> Expression:
    token = reader.next()
    if token.kind in {"string", "number"}:
        return Literal(token.value, token.at)
    if token.kind != "name":
        raise token.at.error(f"expected a value or a reference such as `input.name`, found {token}")
    if token.text in _CONSTANTS:
        return Literal(_CONSTANTS[token.text], token.at)
    path: list[str] = []
    while reader.take("."):
        path.append(reader.expect("name", "a field").text)
    return Reference(token.text, tuple(path), token.at)


def _key(reader: Reader) -> Expression:
    reader.expect_mark(":")
    return _expression(reader)


def _positive(token: Any) -> int:
    if token.value < 1:
        raise token.at.error(f"{token} must be greater than zero")
    return int(token.value)


def _retry(reader: Reader) -> RetryPolicy:
    readers: dict[str, Callable[[], Any]] = {
        "attempts": lambda: _attempts(reader),
        "backoff": lambda: _backoff(reader),
        "initial_delay": lambda: reader.expect("duration", "a duration such as `500ms`").value,
        "non_retryable": lambda: _codes(reader),
    }

    def value(name: str) -> Any:
        if name not in readers:
            raise _unknown_setting(reader, name, readers)
        return readers[name]()

    return RetryPolicy(**{_POLICY_FIELDS.get(name, name): given for name, given in reader.fields(value).items()})


def _unknown_setting(reader: Reader, name: str, known: dict[str, Any]) -> ContractSyntaxError:
    return reader.last_name.at.error(f"`retry` knows no `{name}`; it knows {', '.join(known)}")


def _attempts(reader: Reader) -> int:
    token = reader.expect("number", "a whole number")
    if not isinstance(token.value, int):
        raise token.at.error(f"expected a whole number, found {token}")
    return _positive(token)


def _backoff(reader: Reader) -> bool:
    token = reader.expect("name", "`fixed` or `exponential`")
    if token.text not in _BACKOFFS:
        raise token.at.error(f"expected `fixed` or `exponential`, found {token}")
    return _BACKOFFS[token.text]


def _codes(reader: Reader) -> frozenset[str]:
    reader.expect_mark("[")
    codes: set[str] = set()
    while not reader.take("]"):
        if codes:
            reader.expect_mark(",")
        codes.add(reader.expect("string", "an error code in quotes").value)
    return frozenset(codes)

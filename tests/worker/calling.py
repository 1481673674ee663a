"""Calls of handlers without a worker, and the failures that they end in."""

import contextvars
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NotRequired, TypedDict

import pytest

from orbit_django.context import TaskContext
from orbit_django.protocol import Failure
from orbit_django.tasks import Task
from orbit_django.worker.invocation import HandlerError, encode, failure_of, invoke
from tests.worker.words import assignment, context, task


@dataclass
class Line:
    sku: str
    count: int = 1


@dataclass
class Order:
    order: str
    lines: list[Line]


class Loose(TypedDict):
    order: str
    note: NotRequired[str]


class Model:
    """What a pydantic model offers."""

    def __init__(self, **fields: Any) -> None:
        self.fields = fields

    @classmethod
    def model_validate(cls, value: Any) -> "Model":
        if "order" not in value:
            raise ValueError("order is required")
        return cls(**value)

    def model_dump(self, mode: str, **options: bool) -> dict[str, Any]:
        return self.fields


def call(served: Task, given: Any = None, seen: TaskContext | None = None) -> Any:
    return invoke(served, assignment(input=given), seen or context(), contextvars.copy_context())


def same(text: str) -> str:
    return text


def failing(function: Callable[..., Any], seen: TaskContext | None = None, **fields: Any) -> Failure:
    """Run a handler that fails, and return the failure that reports it."""
    given = fields.pop("given", None)
    redact = fields.pop("redact", same)
    seen = seen or context()
    served = task(function, **fields)
    with pytest.raises(HandlerError) as raised:
        encode(served, call(served, given, seen), "token-1", 2_000)
    assert raised.value.__cause__ is not None
    return failure_of(raised.value.__cause__, seen, redact)


def raising(error: BaseException) -> Callable[[Any], None]:
    def handler(given: Any) -> None:
        raise error

    return handler

"""What an `.orbit` file declares: task contracts and workflows, as frozen values.

Nothing here reads or checks; places in the file are kept for error messages and take no part in comparisons.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from orbit_django.contracts.lexer import Position

STRING, INT, FLOAT = "String", "Int", "Float"
TYPES = (STRING, INT, FLOAT)
INPUT = "input"

Shape = Mapping[str, str]  # field name -> one of TYPES; every field is required


@dataclass(frozen=True, slots=True)
class TaskContract:
    """What a task takes and gives (O222)."""

    name: str
    version: str
    input: Shape
    output: Shape
    at: Position = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Literal:
    """A value written in the file: text, number, true, false or null."""

    value: str | int | float | bool | None
    at: Position = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Reference:
    """A field of the workflow's input (``input.name``) or of a step's output (``compose.message``)."""

    source: str
    path: tuple[str, ...]
    at: Position = field(repr=False, compare=False)

    def __str__(self) -> str:
        return ".".join((self.source, *self.path))


Expression = Literal | Reference


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """When a failed attempt is followed by another (O103); ``attempts`` counts the first."""

    attempts: int = 1
    is_exponential: bool = False
    initial_delay_ms: int = 1_000
    non_retryable: frozenset[str] = frozenset()

    def delay_ms(self, failed_attempt: int) -> int:
        """Return the pause after the given attempt: the initial delay, doubled each time when exponential."""
        return self.initial_delay_ms * (2 ** (failed_attempt - 1) if self.is_exponential else 1)

    def __repr__(self) -> str:
        listed = sorted(self.non_retryable)
        return f"RetryPolicy({self.attempts}, {self.is_exponential}, {self.initial_delay_ms}, {listed})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One call of a task inside a workflow."""

    name: str
    task_name: str
    using: str | None = None  # the runtime that must serve it; None: any (O064)
    arguments: Mapping[str, Expression] = field(default_factory=dict)
    timeout_ms: int | None = None
    retry: RetryPolicy = RetryPolicy()
    idempotency_key: Expression | None = None
    at: Position = field(repr=False, compare=False)
    task_at: Position = field(repr=False, compare=False)  # where the task is named

    def references(self) -> Iterator[Reference]:
        """Yield every reference that must have a value before the step can begin."""
        for expression in (*self.arguments.values(), self.idempotency_key):
            if isinstance(expression, Reference):
                yield expression

    def needs(self) -> set[str]:
        """Return the names of the steps whose outputs this one uses."""
        return {reference.source for reference in self.references()} - {INPUT}


@dataclass(frozen=True, slots=True, kw_only=True)
class Workflow:
    """Steps, in an order in which each comes after those it needs, and what is returned at the end."""

    name: str
    version: str
    input: Shape
    output: Shape
    steps: tuple[Step, ...]
    result: Mapping[str, Expression]
    contracts: Mapping[str, TaskContract] = field(default_factory=dict)  # step name -> contract, once linked
    at: Position = field(repr=False, compare=False)

    def definition_hash(self) -> str:
        """Return a fingerprint that changes with anything but places and comments."""
        return "sha256:" + hashlib.sha256(repr(self).encode()).hexdigest()

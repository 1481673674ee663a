"""Task contracts and workflows as frozen values: what an `.orbit` file declares, and what only Python can.

Nothing here reads or checks; places in the file are kept for error messages and take no part in comparisons. Fan-out,
compensation, handlers, queue and workflow timeouts, defaults and the types List and Any have no form in a file.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from orbit_django.contracts.lexer import NOWHERE, Position
from orbit_django.contracts.units import COMPENSATE, HANDLERS

STRING, INT, FLOAT = "String", "Int", "Float"
TYPES = (STRING, INT, FLOAT)  # that a file can name
LIST, ANY = "List", "Any"
INPUT = "input"
ITEM, FAILURE = "$item", "$failure"  # no step of a file can have such a name

Shape = Mapping[str, str]  # field name -> type; every field is required


@dataclass(frozen=True, slots=True)
class TaskContract:
    """What a task takes and gives (O222)."""

    name: str
    version: str
    input: Shape = field(default_factory=dict)
    output: Shape = field(default_factory=dict)
    at: Position = field(default=NOWHERE, repr=False, compare=False)
    defaults: Mapping[str, Any] = field(default_factory=dict)  # of members that an output lacks

    def fill_in(self, output: Any) -> Any:
        """Return an output with the defaults of what it lacks; a missing one counts as empty (O090, O091)."""
        output = {} if output is None else output
        return {**self.defaults, **output} if isinstance(output, dict) else output


@dataclass(frozen=True, slots=True)
class Literal:
    """A value: text, number, true, false or null in a file, any JSON value otherwise."""

    value: Any
    at: Position = field(default=NOWHERE, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Reference:
    """A field of the workflow's input (``input.name``) or of a step's output (``compose.message``).

    In a fan-out ``$item`` is the element, in a handler ``$failure`` has reason, code and message; the output of a
    fan-out step is a list.
    """

    source: str
    path: tuple[str, ...] = ()
    at: Position = field(default=NOWHERE, repr=False, compare=False)

    @classmethod
    def to(cls, text: str) -> Reference:
        """Return the reference that a dotted text names."""
        source, *path = text.split(".")
        return cls(source, tuple(path))

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
class Call:
    """One call of a task: a step makes it, or it undoes one."""

    task_name: str
    using: str | None = None  # the runtime that must serve it, in lower case; None: any (O064)
    arguments: Mapping[str, Expression] = field(default_factory=dict)
    timeout_ms: int | None = None  # of one attempt
    queue_timeout_ms: int | None = None  # how long it may wait for a worker
    retry: RetryPolicy = RetryPolicy()
    idempotency_key: Expression | None = None
    at: Position = field(default=NOWHERE, repr=False, compare=False)
    task_at: Position = field(default=NOWHERE, repr=False, compare=False)  # where the task is named

    def references(self) -> Iterator[Reference]:
        """Yield every reference that must have a value before the call can begin."""
        for expression in (*self.arguments.values(), self.idempotency_key):
            if isinstance(expression, Reference):
                yield expression


@dataclass(frozen=True, slots=True, kw_only=True)
class Step(Call):
    """A call with a name, made once, or once for each element of a list."""

    name: str
    each: Expression | None = None  # the list of a fan-out
    compensation: Call | None = None  # what undoes each success when the workflow ends badly

    def references(self) -> Iterator[Reference]:
        """Yield every reference that must have a value before the step can begin."""
        yield from Call.references(self)
        if isinstance(self.each, Reference):
            yield self.each

    def needs(self) -> set[str]:
        """Return the names of the steps whose outputs this one uses."""
        return {reference.source for reference in self.references()} - {INPUT, ITEM, FAILURE}


@dataclass(frozen=True, kw_only=True)  # without slots: what is derived is kept
class Workflow:
    """Steps, in an order in which each comes after those it needs, and what is returned at the end."""

    name: str
    version: str
    input: Shape = field(default_factory=dict)
    output: Shape = field(default_factory=dict)
    steps: tuple[Step, ...] = ()
    result: Mapping[str, Expression] = field(default_factory=dict)
    timeout_ms: int | None = None
    on_failure: tuple[Step, ...] = ()  # run at the end, after the compensations
    on_cancel: tuple[Step, ...] = ()
    on_timeout: tuple[Step, ...] = ()
    contracts: Mapping[str, TaskContract] = field(default_factory=dict)  # by the names of `calls`, once linked
    at: Position = field(default=NOWHERE, repr=False, compare=False)

    def block(self, prefix: str) -> tuple[Step, ...]:
        """Return the steps whose units begin so: the workflow's own for an empty prefix, or those of a handler."""
        return getattr(self, prefix.rstrip(":")) if prefix in HANDLERS else self.steps

    def step(self, name: str) -> Step:
        """Return one of the workflow's own steps."""
        return next(step for step in self.steps if step.name == name)

    @cached_property
    def calls(self) -> Mapping[str, Call]:
        """Every call by the name of its units, without an index: ``s``, ``compensate:s``, ``on_failure:s``."""
        calls: dict[str, Call] = {}
        for prefix in ("", *HANDLERS):
            calls |= {prefix + step.name: step for step in self.block(prefix)}
        undone = {COMPENSATE + step.name: step.compensation for step in self.steps if step.compensation}
        return calls | undone

    @cached_property
    def definition_hash(self) -> str:
        """A fingerprint that changes with anything but places and comments."""
        return "sha256:" + hashlib.sha256(repr(self).encode()).hexdigest()

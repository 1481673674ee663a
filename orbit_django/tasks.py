"""Handlers: the ``@task`` decorator, what it records, and the registry that finds it again.

Nothing here raises for a handler that cannot be served: the fault is kept, system checks show it, and only a
worker refuses to start.
"""

from __future__ import annotations

import fnmatch
import inspect
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import Any, TypeVar

from django.apps import apps
from django.db.models import Model
from django.utils.module_loading import module_has_submodule

from orbit_django import shapes
from orbit_django.contracts.names import instead
from orbit_django.exceptions import ConfigurationError
from orbit_django.payloads import counted
from orbit_django.protocol import RESERVED_PREFIX, Contract

MODULE = "tasks_orbit"
CONTEXT = ("orbit_django.context", "TaskContext")  # module and name of what a handler takes beside its input
HOW_TO_DECLARE = 'name and version are to be said: @task("name", version="1.0.0")'
_MISSING: Any = object()
Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Task:
    """One handler: the function and everything that was said about it."""

    contract: Contract
    function: Callable[..., Any]
    is_atomic: bool = True  # whether handler, record and message share one transaction
    using: str | None = None  # database alias; None: the DATABASE setting
    input_type: Any = None  # the type that the input is read as; None: the JSON value itself
    output_type: Any = None  # the type that the result must have; None: any JSON object
    is_sensitive: bool = False  # whether inputs and outputs are hidden from people
    description: str = ""
    promised: Mapping[str, str] = field(
        default_factory=dict, hash=False
    )  # by CONTRACTS: fields of the output, and types

    @property
    def place(self) -> str:
        """Where the function is written, for messages to people."""
        return _place(self.function)

    @property
    def source(self) -> tuple[str, int] | None:
        """File and line of the function; the same for a module that was imported under two names."""
        code = getattr(inspect.unwrap(self.function), "__code__", None)
        return (code.co_filename, code.co_firstlineno) if code else None

    @property
    def takes_context(self) -> bool:
        """Whether the handler wants ``(input, ctx)`` or only ``(input)``."""
        return _takes_context(self.function)


class Registry:
    """The handlers of this process by task name and contract version, and what is wrong with them."""

    def __init__(self) -> None:
        self._tasks: dict[Contract, Task] = {}
        self.faults: list[str] = []

    def __len__(self) -> int:
        return len(self._tasks)

    def __iter__(self) -> Iterator[Task]:
        return iter(sorted(self._tasks.values(), key=lambda task: task.contract))

    def add(self, task: Task) -> None:
        """Keep a handler, or the fault for which it cannot be served."""
        held = self._tasks.get(task.contract)
        name, version = task.contract.task_name, task.contract.contract_version
        if name.startswith(RESERVED_PREFIX):
            self.faults.append(f"{task.place}: {name!r} is reserved: {RESERVED_PREFIX}* belongs to the runtime")
        elif held is None:
            self._tasks[task.contract] = task
        elif held.source == task.source and held.function.__module__ != task.function.__module__:
            self.faults.append(
                f"{name} {version}: one file is imported under two names, "
                f"{held.function.__module__} and {task.function.__module__}; use one of them everywhere"
            )
        else:
            self.faults.append(f"{name} {version} has two handlers: {held.place} and {task.place}")

    def get(self, contract: Contract) -> Task | None:
        """Return the handler of exactly this name and version."""
        return self._tasks.get(contract)

    def hides(self, task_name: str) -> bool:
        """Return whether any version of a task is declared sensitive."""
        return any(task.is_sensitive and task.contract.task_name == task_name for task in self)

    def select(self, patterns: Iterable[str] = (), excluded: Iterable[str] = ()) -> tuple[Task, ...]:
        """Return the handlers whose names match; raise ConfigurationError for a pattern that matches none."""
        chosen = list(self)
        for pattern in (*patterns, *excluded):
            if not any(fnmatch.fnmatchcase(task.contract.task_name, pattern) for task in chosen):
                told = f"the task pattern {pattern!r} matches none of {counted(len(chosen), 'task')}"
                raise ConfigurationError(told + instead(pattern, (task.contract.task_name for task in chosen)))
        if patterns:
            chosen = [task for task in chosen if _matches(task, patterns)]
        return tuple(task for task in chosen if not _matches(task, excluded))


registry = Registry()


def task(  # noqa: PLR0913  (what can be said about a handler, each by name)
    name: str = _MISSING,
    *,
    version: str = _MISSING,
    atomic: bool = True,
    using: str | None = None,
    output: Any = None,
    sensitive: bool = False,
    description: str = "",
) -> Callable[[Function], Function]:
    """Serve a task: ``@task("payments.charge", version="1.0.0")`` above ``def charge(input, ctx)``.

    ``name`` and ``version`` are exactly those of the contract (O059). ``atomic`` runs the handler inside the
    transaction that also holds its record and its result. ``using`` is the database alias of that transaction,
    ``output`` a type that overrides the return annotation, ``sensitive`` hides inputs and outputs from people.
    The function itself is returned unchanged.
    """
    if callable(name):  # @task without brackets
        return _undeclared(name)

    def register(function: Function) -> Function:
        try:
            _check_function(function)
            registry.add(
                Task(
                    contract=Contract(_named(name, "name"), _named(version, "version")),
                    function=function,
                    is_atomic=atomic,
                    using=using,
                    input_type=_input_type(function),
                    output_type=_output_type(function, output),
                    is_sensitive=sensitive,
                    description=description or inspect.getdoc(function) or "",
                )
            )
        except ConfigurationError as error:
            registry.faults.append(f"{_place(function)}: {error}")
        return function

    return register


def _undeclared(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that is decorated without saying what it serves, which is a fault of its place."""
    registry.faults.append(f"{_place(function)}: {HOW_TO_DECLARE}")
    return function


def discover() -> None:
    """Import ``tasks_orbit`` of every installed app; an error in one is raised as it is, with a note."""
    for app in apps.get_app_configs():
        if app.module is not None and module_has_submodule(app.module, MODULE):
            try:
                import_module(f"{app.name}.{MODULE}")
            except Exception as error:
                error.add_note(f"orbit_django looks for handlers in {app.name}.{MODULE}, which cannot be imported")
                raise


def _matches(task: Task, patterns: Iterable[str]) -> bool:
    return any(fnmatch.fnmatchcase(task.contract.task_name, pattern) for pattern in patterns)


def _named(value: Any, what: str) -> str:
    if value is _MISSING:
        raise ConfigurationError(HOW_TO_DECLARE)
    if not isinstance(value, str) or not value or value != value.strip() or not value.isprintable():
        raise ConfigurationError(f"the task's {what} is to be a text without blanks at its ends, found {value!r}")
    return value


def _place(function: Callable[..., Any]) -> str:
    code = getattr(inspect.unwrap(function), "__code__", None)
    line = f":{code.co_firstlineno}" if code else ""
    return f"{function.__module__}.{getattr(function, '__qualname__', type(function).__qualname__)}{line}"


def _check_function(function: Callable[..., Any]) -> None:
    if not inspect.isroutine(function):
        raise ConfigurationError("@task belongs above a function")
    inner = inspect.unwrap(function)
    if inspect.isgeneratorfunction(inner) or inspect.isasyncgenfunction(inner):
        raise ConfigurationError("a handler returns its result, it does not yield")


@cache  # asked for each task
def _takes_context(function: Callable[..., Any]) -> bool:
    return len(_positional(function)) > 1


def _positional(function: Callable[..., Any]) -> list[inspect.Parameter]:
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [item for item in inspect.signature(function).parameters.values() if item.kind in kinds]


def _shown(function: Callable[..., Any]) -> str:
    """Return the parameters of a function without their annotations."""
    found = inspect.signature(function).parameters.values()
    return str(inspect.Signature([item.replace(annotation=item.empty) for item in found]))


def _input_type(function: Callable[..., Any]) -> Any:
    positional = _positional(function)
    rest = [item for item in inspect.signature(function).parameters.values() if item not in positional[:2]]
    variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    if not positional or any(item.default is item.empty and item.kind not in variable for item in rest):
        raise ConfigurationError(f"a handler takes (input, ctx) or (input), found {_shown(function)}")
    found = _evaluated(positional[0].annotation, function)
    if positional[0].name == "ctx" or any(_is_context(kind) for kind in (found, *typing.get_args(found))):
        raise ConfigurationError(f"the input comes first: a handler takes (input, ctx), found {_shown(function)}")
    if model := _model_in(found):
        raise ConfigurationError(
            f"the input is annotated with the model {model.__name__}, but it is JSON: annotate it with dict, "
            "a dataclass, a TypedDict or a pydantic model, and look the row up"
        )
    return found if shapes.holds_shape(found) else None


def _is_context(kind: Any) -> bool:
    return (getattr(kind, "__module__", ""), getattr(kind, "__name__", "")) == CONTEXT


def _output_type(function: Callable[..., Any], declared: Any) -> Any:
    annotation = inspect.signature(function).return_annotation
    found = _evaluated(annotation if declared is None else declared, function)
    if (typing.get_origin(found) or found) in (str, int, float, bool, list, tuple, set, bytes):
        raise ConfigurationError(f"declares the output {found.__name__}; a handler returns a JSON object")
    if model := _model_in(found):
        raise ConfigurationError(f"declares the output {model.__name__}, a model; a handler returns a JSON object")
    return found if shapes.is_shape(found) else None


def _model_in(kind: Any) -> type[Model] | None:
    """Return the Django model that a type is, or is made of."""
    if isinstance(kind, type) and issubclass(kind, Model):
        return kind
    return next(filter(None, map(_model_in, typing.get_args(kind))), None)


def _evaluated(annotation: Any, function: Callable[..., Any]) -> Any:
    if not isinstance(annotation, str):
        return annotation
    scope = getattr(inspect.unwrap(function), "__globals__", {})
    try:
        return eval(annotation, scope)  # noqa: S307  (the project's own annotation, postponed by its author)
    except (NameError, AttributeError, TypeError, SyntaxError) as error:
        raise ConfigurationError(
            f"the annotation {annotation!r} cannot be read: {error}; a handler's types are imported at run time, "
            "not under TYPE_CHECKING"
        ) from None

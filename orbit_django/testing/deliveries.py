"""Deliveries made up for tests, and the handlers that they are for."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from typing import Any
from uuid import uuid4

from django.db import DEFAULT_DB_ALIAS, connections

from orbit_django import contracts
from orbit_django.contracts.names import likely
from orbit_django.dialects import dialect_of, is_in_block
from orbit_django.exceptions import ConfigurationError
from orbit_django.payloads import plain
from orbit_django.protocol import Assignment
from orbit_django.tasks import Task, registry

SAYABLE = sorted({field.name for field in fields(Assignment)} - {"task_name", "input"})


def find_task(name: str, version: str | None = None) -> Task:
    """Return the handler of that name; raise LookupError when there is none, or several and no version says which."""
    named = [task for task in registry if task.contract.task_name == name]
    found = [task for task in named if version in (None, task.contract.contract_version)]
    if len(found) == 1:
        return found[0]
    if named:
        versions = ", ".join(task.contract.contract_version for task in named)
        raise LookupError(f"{name} has handlers of the versions {versions}; say which by contract_version=")
    known = sorted({task.contract.task_name for task in registry})
    close = likely(name, known)
    hint = f"did you mean {close!r}?" if close else f"known are: {', '.join(known) or 'none'}"
    raise LookupError(f"no tasks_orbit.py has a handler for {name!r}; {hint}")


def assignment_of(task: Task, input: Any, said: dict[str, Any]) -> Assignment:
    """Return a delivery of a task: the first one of a step of its own, but for the fields that were said."""
    if unknown := sorted(set(said) - set(SAYABLE)):
        raise TypeError(f"an assignment has no {', '.join(unknown)}; it has {', '.join(SAYABLE)}")
    execution, step = said.get("execution_id") or f"test-{uuid4().hex[:12]}", said.get("step_id") or "step"
    usual: dict[str, Any] = {
        "token": f"token-{uuid4().hex}",
        "execution_id": execution,
        "workflow": "Test",
        "workflow_version": "1.0.0",
        "step_id": step,
        "contract_version": task.contract.contract_version,
        "idempotency_key": f"{execution}/{step}",
    }
    value = plain({} if input is None else input, "$.input")
    return Assignment(**(usual | said), task_name=task.contract.task_name, input=value)


def warn_of_input(assignment: Assignment, files: Iterable[str]) -> None:
    """Warn of an input that breaks the task's contract, which no runtime delivers (O075).

    The task is run all the same, since a test may want to see what its handler says to such an input.
    """
    declared = contracts.load(files).tasks.get((assignment.task_name, assignment.contract_version))
    if declared is None:
        return
    wrong = [f"{path}: {text}" for path, text in contracts.mismatches(assignment.input, declared.input)]
    if wrong:
        warnings.warn(
            f"no runtime would deliver this input, which breaks the contract of {declared.name} {declared.version}"
            f" in CONTRACTS: {'; '.join(wrong)}",
            stacklevel=3,  # the line of the test
        )


def usable_aliases(what: str) -> tuple[str, ...]:
    """Return the databases that the running test may use, each real one once; raise ConfigurationError for none."""
    __tracebackhide__ = True
    real = [alias for alias in connections if not connections[alias].settings_dict["TEST"].get("MIRROR")]
    if not (found := tuple(alias for alias in real if _is_usable(alias))):
        need_database(what, DEFAULT_DB_ALIAS)
    return found


def need_database(what: str, alias: str) -> None:
    """Raise ConfigurationError when the running test may not use a database."""
    __tracebackhide__ = True
    if not _is_usable(alias):
        raise ConfigurationError(
            f"{what} needs a test that may use the database {alias!r}: mark it with pytest.mark.django_db, or derive it"
            " from TestCase; of several databases the mark, or the class, names those that it uses in `databases`"
        )


def _is_usable(alias: str) -> bool:
    try:
        connections[alias].cursor().close()  # and no less: a connection may be open and yet be forbidden
    except (AssertionError, RuntimeError) as error:  # how a TestCase and pytest-django say so
        if "not allowed" not in str(error):
            raise
        return False
    return True


@contextmanager
def leaving_no_file(aliases: Iterable[str]) -> Iterator[None]:
    """Remove, at the end, what lies beside databases to keep their writers in order."""
    try:
        yield
    finally:
        for alias in aliases:
            dialect_of(alias).forget()


def is_in_open_block(alias: str) -> bool:
    """Return whether an atomic block is open that is not the one around a whole TestCase."""
    return is_in_block(connections[alias])


def need_commits(what: str, aliases: tuple[str, ...]) -> None:
    """Raise ConfigurationError when the running test never commits."""
    if any(connections[alias].in_atomic_block for alias in aliases):
        raise ConfigurationError(
            f"{what} needs a test that commits: mark it with pytest.mark.django_db(transaction=True), or derive it"
            " from TransactionTestCase instead of TestCase"
        )

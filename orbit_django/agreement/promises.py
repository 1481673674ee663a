"""What contracts promise of a task's output, kept with the task, so that each result can be held to it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from orbit_django import contracts
from orbit_django.protocol import Contract
from orbit_django.tasks import Task


def promising(tasks: Mapping[Contract, Task], paths: Iterable[str | Path]) -> dict[Contract, Task]:
    """Return the tasks, each with the output that the `.orbit` files declare for its name and version, if they do.

    Raises ConfigurationError for a file that cannot be read.
    """
    declared = contracts.load(paths).tasks
    return {
        contract: replace(task, promised=declared[key].output)
        if (key := (contract.task_name, contract.contract_version)) in declared
        else task
        for contract, task in tasks.items()
    }

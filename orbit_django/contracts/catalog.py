"""Everything that a set of `.orbit` files declares, checked as a whole."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from orbit_django.contracts.declarations import TaskContract, Workflow
from orbit_django.contracts.grammar import parse
from orbit_django.contracts.lexer import Position
from orbit_django.contracts.linking import link
from orbit_django.exceptions import ConfigurationError
from orbit_django.protocol import RESERVED_PREFIX

NUMBERS = re.compile(r"[0-9]{1,18}(\.[0-9]{1,18})*")


@dataclass
class Catalog:
    """The declared tasks and workflows, each by name and version."""

    tasks: dict[tuple[str, str], TaskContract] = field(default_factory=dict)
    workflows: dict[tuple[str, str], Workflow] = field(default_factory=dict)
    empty_files: list[str] = field(default_factory=list)  # which were read and declare nothing

    def workflow(self, name: str, version: str | None = None) -> Workflow | None:
        """Return a workflow; without a version, the highest under that name, wherever it stands.

        Versions are compared as numbers between dots; where one is not made of those, the one declared last counts.
        """
        if version is not None:
            return self.workflows.get((name, version))
        found = [workflow for workflow in self.workflows.values() if workflow.name == name]
        if all(NUMBERS.fullmatch(workflow.version) for workflow in found):
            found.sort(key=lambda workflow: [int(part) for part in workflow.version.split(".")])
        return found[-1] if found else None

    def versions_in_use(self, task_name: str) -> list[str]:
        """Return the contract versions of a task that workflows use, sorted (O056)."""
        used = (contract for workflow in self.workflows.values() for contract in workflow.contracts.values())
        return sorted({contract.version for contract in used if contract.name == task_name})

    def is_workflow(self, name: str) -> bool:
        """Say whether a workflow has this name, which no task of a worker may bear (O057)."""
        return self.workflow(name) is not None

    def add_file(self, tasks: Iterable[TaskContract], workflows: Iterable[Workflow]) -> None:
        """Add what one file declares, or raise ContractSyntaxError."""
        own: dict[str, TaskContract] = {}
        for task in tasks:
            if task.name in own:
                raise task.at.error(f"task `{task.name}` is declared twice, first at {own[task.name].at}")
            self._add_task(task)
            own[task.name] = task
        for workflow in workflows:
            key = (workflow.name, workflow.version)
            if key in self.workflows:
                first = self.workflows[key].at
                text = f"workflow {workflow.name} {workflow.version} is declared twice, first at {first}"
                raise workflow.at.error(text)
            self.workflows[key] = link(workflow, self._visible(own))

    def declare(self, tasks: Iterable[TaskContract] = (), workflows: Iterable[Workflow] = ()) -> None:
        """Add declarations made in Python, which can say more than a file; raises ContractSyntaxError.

        A workflow that is known already is an error, a task that is known and the same is not.
        """
        self.add_file(tasks, workflows)

    def _add_task(self, task: TaskContract) -> None:
        if not task.name or task.name.startswith(RESERVED_PREFIX):
            raise task.at.error(f'"{task.name}" is not a name for a task: it is empty or begins with `orbit.`')
        known = self.tasks.setdefault((task.name, task.version), task)
        if known != task:
            raise task.at.error(f"task `{task.name}` {task.version} is declared otherwise at {known.at}")

    def _visible(self, own: Mapping[str, TaskContract]) -> dict[str, TaskContract]:
        """Return what each task name means in a file: its own declaration, else the one declared last."""
        return {**{name: task for (name, _), task in self.tasks.items()}, **own}


def read(text: str, file: str = "<text>") -> Catalog:
    """Return the catalog of one text; raises ContractSyntaxError."""
    catalog = Catalog()
    catalog.add_file(*parse(text, file))
    return catalog


def load(paths: Iterable[str | Path]) -> Catalog:
    """Return the catalog of `.orbit` files.

    Raises ContractSyntaxError for what is written in one, ConfigurationError for one that cannot be read.
    """
    catalog = Catalog()
    files = [str(path) for path in paths]
    parsed = [parse(_text(Path(file)), file) for file in files]
    catalog.empty_files = [file for file, found in zip(files, parsed, strict=True) if not any(found)]
    for tasks, _ in parsed:  # so that the order of the files does not matter
        catalog.add_file(tasks, ())
    for tasks, workflows in parsed:
        catalog.add_file(tasks, workflows)
    return catalog


def _text(path: Path) -> str:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read: {error.strerror}") from None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8-sig")
        line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
        raise Position(str(path), line, column).error("this is not UTF-8 text") from None

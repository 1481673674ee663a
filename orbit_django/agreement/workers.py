"""What the runtime says of its workers, compared with the handlers: the list is read with care, for its form varies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from orbit_django.protocol import Contract
from orbit_django.tasks import Task


@dataclass(frozen=True, slots=True)
class Served:
    """How many workers that are online serve each task."""

    online: int  # workers, of this project or of others
    counts: dict[Contract, int]
    lacking: tuple[Contract, ...]  # tasks of this project that its workers, which are there, do not serve


def served(tasks: Iterable[Task], workers: Iterable[Any]) -> Served:
    """Return who serves the tasks; workers as ``Client.workers`` returns them (O113)."""
    online = [worker for worker in workers if isinstance(worker, dict) and worker.get("online", True)]
    counts = Counter(contract for worker in online for contract in _announced(worker))
    ours = [task.contract for task in tasks]
    names = {contract.task_name for contract in ours}
    are_ours_there = any(contract.task_name in names for contract in counts)
    lacking = tuple(contract for contract in ours if are_ours_there and not counts[contract])
    return Served(len(online), dict(counts), lacking)


def _announced(worker: dict[str, Any]) -> set[Contract]:
    listed = worker.get("contracts")
    found = [item for item in listed if isinstance(item, dict)] if isinstance(listed, list) else []
    return {Contract(str(item.get("task_name")), str(item.get("contract_version"))) for item in found}

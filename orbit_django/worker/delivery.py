"""One delivery on its way through the executor, what can come of it, and what the log says of a report."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from orbit_django.context import TaskContext
from orbit_django.idempotency import new_owner
from orbit_django.models import OutboxMessage
from orbit_django.protocol import Assignment
from orbit_django.tasks import Task
from orbit_django.verdicts import Key


class Deferred(Enum):
    """Why there is no message to send."""

    PARKED = "parked"  # somebody else runs the key now: ask again later
    DROPPED = "dropped"  # the runtime delivers again, or has ended the attempt itself


Result = OutboxMessage | Deferred


@dataclass(slots=True)
class Delivery:
    """One delivery with its handler and its key."""

    assignment: Assignment
    context: TaskContext
    task: Task
    key: Key
    owner: str = field(default_factory=new_owner)
    runs: int = 0  # how often the handler was run for this delivery
    way: str = ""  # how the outcome came about, where no run brought it: replay or conflict
    code: str = ""  # of the failure that is reported

    @property
    def using(self) -> str:
        """The database alias of the task."""
        return self.key.using


def about_message(message: OutboxMessage, **more: object) -> dict[str, object]:
    """Return the extras that name a report; its record comes along with every message that is sent."""
    seen, record = {"execution": message.execution_id}, message.record
    if record is not None:
        is_its_own = record.execution_id == message.execution_id  # else another execution shares the key
        seen |= {"step": record.step_id, "task": record.task_name} if is_its_own else {"task": record.task_name}
    return {**seen, "attempt": message.attempt, "kind": message.kind, "tries": message.attempts + 1, **more}

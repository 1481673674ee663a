"""Log records with constant texts: what changes from record to record is in named extras."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, MutableMapping
from typing import Any

from orbit_django.protocol import Assignment

BREAKS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")  # what ends a line, or steers a terminal
STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def about(assignment: Assignment, **more: Any) -> dict[str, Any]:
    """Return the extras that name a delivery; never its token."""
    return {
        "execution": assignment.execution_id,
        "step": assignment.step_id,
        "task": assignment.task_name,
        "attempt": assignment.attempt,
        **more,
    }


class BoundLogger(logging.LoggerAdapter[logging.Logger]):
    """A logger that adds fixed extras to each record and keeps those of the call."""

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        """Merge the bound extras with the call's; the call wins."""
        bound: Mapping[str, object] = self.extra or {}
        kwargs["extra"] = {**bound, **(kwargs.get("extra") or {})}
        return msg, kwargs


class ExtrasFormatter(logging.Formatter):
    """One line a record, extras at its end as ``name=value``; no text can forge a second line."""

    def __init__(self, head: str = "%(asctime)s %(levelname)s %(name)s %(message)s") -> None:
        super().__init__(head)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  (the name is logging's)
        """Return the line without its traceback."""
        extras = {name: value for name, value in vars(record).items() if name not in STANDARD}
        shown = "".join(f" {name}={value}" for name, value in extras.items())
        return BREAKS.sub(lambda found: ascii(found[0])[1:-1], super().formatMessage(record) + shown)

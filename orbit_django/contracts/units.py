"""The names of units: what a ``step_id`` can look like (O072)."""

from __future__ import annotations

import re
from dataclasses import dataclass

COMPENSATE = "compensate:"
HANDLERS = ("on_failure:", "on_cancel:", "on_timeout:")
_FORM = re.compile(r"(?P<prefix>[a-z_]+:)?(?P<step>[^\[\]:]+)(?:\[(?P<index>\d+)\])?")


@dataclass(frozen=True, slots=True)
class Unit:
    """A step, an element of a fan-out, a compensation, or a step of a handler."""

    step: str
    prefix: str = ""
    index: int | None = None  # of the element

    @classmethod
    def parse(cls, text: str) -> Unit:
        """Return the unit of a name."""
        match = _FORM.fullmatch(text)
        if match is None:
            return cls(text)
        return cls(match["step"], match["prefix"] or "", int(match["index"]) if match["index"] else None)

    @property
    def declared(self) -> str:
        """The name without the index, by which the workflow knows the call."""
        return self.prefix + self.step

    @property
    def is_plain(self) -> bool:
        """Say whether it belongs to the workflow's own steps, and so ends when the workflow is ended."""
        return not self.prefix

    def undone(self) -> Unit:
        """Return the compensation of this unit."""
        return Unit(self.step, COMPENSATE, self.index)

    def __str__(self) -> str:
        return self.declared if self.index is None else f"{self.declared}[{self.index}]"

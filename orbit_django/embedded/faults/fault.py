"""One disturbance: which call it meets, how often, and after how many others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

ASSIGNMENT = "assignment"  # a poll whose answer hands out a task
CALLS = ("register", "poll", "heartbeat", "unregister", "complete", "fail", "other", ASSIGNMENT, "*")


@dataclass
class Fault:
    """One disturbance; set ``times`` to 0 to lift it."""

    kind: str  # one of KINDS
    call: str = "*"  # one of CALLS
    value: Any = None  # what the kind says; None: its default
    times: int | None = 1  # None: always
    skip: int = 0  # calls let pass first

    def strikes(self, *calls: str) -> bool:
        """Say whether the fault meets a request that goes by these names, and count it."""
        if self.call not in {"*", *calls} or self.times == 0:
            return False
        if self.skip:
            self.skip -= 1
            return False
        if self.times is not None:
            self.times -= 1
        return True

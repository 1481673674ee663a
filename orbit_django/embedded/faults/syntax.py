"""Faults on the command line."""

from __future__ import annotations

from orbit_django.embedded.fault import FORM, Fault, read_fault
from orbit_django.embedded.faults.active import Faults
from orbit_django.embedded.faults.calls import CALLS
from orbit_django.embedded.faults.kinds import KINDS

_EXAMPLES = "for example lost:complete, status:poll:503x3, delay:fail:2s, expire:pollx*"


def parse_fault(text: str) -> Fault:
    """Return the fault that a ``--fault`` option names; raises ConfigurationError."""
    return Faults.check(read_fault(text, KINDS, _EXAMPLES))


def explain() -> str:
    """Return what the help says of ``--fault``, a line for each kind."""
    lines = [
        f"Faults: {FORM}. SKIP calls are let pass first, then TIMES are met, once by default, x* always.",
        f"Calls: {', '.join(CALLS)}; assignment is a poll that hands out a task.",
    ]
    return "\n".join([*lines, *(f"  {name:<10} {kind.about}" for name, kind in KINDS.items())])

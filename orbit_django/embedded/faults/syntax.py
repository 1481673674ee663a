"""Faults on the command line."""

from __future__ import annotations

import re

from orbit_django.embedded.faults.active import check
from orbit_django.embedded.faults.fault import CALLS, Fault
from orbit_django.embedded.faults.kinds import KINDS
from orbit_django.exceptions import ConfigurationError

FORM = "KIND:CALL[:VALUE][+SKIP][xTIMES]"
_SYNTAX = re.compile(
    r"(?P<kind>[a-z]+):(?P<call>[a-z]+|\*)(?::(?P<value>.+?))?(?:\+(?P<skip>\d+))?(?:x(?P<times>\d+|\*))?"
)
_EXAMPLES = "for example lost:complete, status:poll:503x3, delay:fail:2s, expire:pollx*"


def parse_fault(text: str) -> Fault:
    """Return the fault that a ``--fault`` option names; raises ConfigurationError."""
    match = _SYNTAX.fullmatch(text)
    if match is None or match["kind"] not in KINDS:
        raise ConfigurationError(f"--fault {text}: expected {FORM}, {_EXAMPLES}; kinds are {', '.join(KINDS)}")
    try:
        value = KINDS[match["kind"]].read(match["value"]) if match["value"] else None
    except (ValueError, RecursionError):
        raise ConfigurationError(f"--fault {text}: `{match['value']}` is no value for {match['kind']}") from None
    times = None if match["times"] == "*" else int(match["times"] or 1)
    return check(Fault(match["kind"], match["call"], value, times, int(match["skip"] or 0)))


def explain() -> str:
    """Return what the help says of ``--fault``, a line for each kind."""
    lines = [
        f"Faults: {FORM}. SKIP calls are let pass first, then TIMES are met, once by default, x* always.",
        f"Calls: {', '.join(CALLS)}; assignment is a poll that hands out a task.",
    ]
    return "\n".join([*lines, *(f"  {name:<10} {kind.about}" for name, kind in KINDS.items())])

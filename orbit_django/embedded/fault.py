"""One disturbance: which call it meets, how often, after how many others, and how a command line names it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from orbit_django.exceptions import ConfigurationError

FORM = "KIND:CALL[:VALUE][+SKIP][xTIMES]"
_SYNTAX = re.compile(
    r"(?P<kind>[a-z]+):(?P<call>[a-z]+|\*)(?::(?P<value>.+?))?(?:\+(?P<skip>\d+))?(?:x(?P<times>\d+|\*))?"
)


@dataclass
class Fault:
    """One disturbance; set ``times`` to 0 to lift it."""

    kind: str
    call: str = "*"
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


class Readable(Protocol):
    """A kind of fault, as far as its value is written on a command line."""

    @property
    def read(self) -> Callable[[str], Any]:
        """Read the value, or raise ValueError."""
        ...


def read_fault(text: str, kinds: Mapping[str, Readable], examples: str) -> Fault:
    """Return the fault that a ``--fault`` option names; raises ConfigurationError, which shows the examples."""
    match = _SYNTAX.fullmatch(text)
    if match is None or match["kind"] not in kinds:
        raise ConfigurationError(f"--fault {text}: expected {FORM}, {examples}; kinds are {', '.join(kinds)}")
    try:
        value = kinds[match["kind"]].read(match["value"]) if match["value"] else None
    except (ValueError, RecursionError):
        raise ConfigurationError(f"--fault {text}: `{match['value']}` is no value for {match['kind']}") from None
    times = None if match["times"] == "*" else int(match["times"] or 1)
    return Fault(match["kind"], match["call"], value, times, int(match["skip"] or 0))

"""Disturbances: which call each meets, how often, after how many others, which are in force, and their command line."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, Protocol, TypeVar

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
    """A kind of fault, as far as all servers have it."""

    @property
    def read(self) -> Callable[[str], Any]:
        """Read the value, or raise ValueError."""
        ...

    @property
    def default(self) -> Any:
        """What a fault without a value strikes with."""
        ...

    @property
    def is_last(self) -> bool:
        """Whether it leaves nothing of an answer that another fault could read."""
        ...


K = TypeVar("K", bound=Readable)


class FaultsInForce(Generic[K]):
    """The faults in force: put, lifted and counted, from any thread; what they do is said by the server itself."""

    kinds: ClassVar[Mapping[str, Any]]
    calls: ClassVar[Collection[str]]

    def __init__(self, *faults: Fault) -> None:
        self._faults = [replace(self.check(fault)) for fault in faults]
        self._lock = threading.Lock()

    @classmethod
    def check(cls, fault: Fault) -> Fault:
        """Return the fault; raise ConfigurationError for a kind or a call that there is not."""
        if fault.kind not in cls.kinds or fault.call not in cls.calls:
            what, known = ("calls", cls.calls) if fault.kind in cls.kinds else ("kinds", cls.kinds)
            raise ConfigurationError(f"fault {fault.kind}:{fault.call}: {what} are {', '.join(known)}")
        return fault

    def add(self, kind: str, call: str = "*", *, value: Any = None, times: int | None = 1, skip: int = 0) -> Fault:
        """Put a fault in force and return it; set its ``times`` to 0 to lift it.

        Times are milliseconds, statuses whole numbers, objects and JSON Python values; None stands for the default of
        the kind.
        """
        return self.put(Fault(kind, call, value, times, skip))

    def put(self, fault: Fault) -> Fault:
        """Put a fault in force and return it."""
        with self._lock:
            self._faults.append(self.check(fault))
        return fault

    def clear(self) -> None:
        """Lift all faults."""
        with self._lock:
            self._faults.clear()

    def _in_force(self) -> Iterator[tuple[Fault, K, Any]]:
        """Return each fault that may still strike, with its kind and its value."""
        with self._lock:
            faults = [fault for fault in self._faults if fault.times != 0]
        for fault in faults:
            kind = self.kinds[fault.kind]
            yield fault, kind, kind.default if fault.value is None else fault.value

    def _spoiling(self) -> list[tuple[Fault, K, Any]]:
        """Return the same in the order in which they spoil an answer: last what leaves nothing for another one."""
        return sorted(self._in_force(), key=lambda each: each[1].is_last)

    def _strikes(self, fault: Fault, *calls: str) -> bool:
        with self._lock:
            return fault.strikes(*calls)


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

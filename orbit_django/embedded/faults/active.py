"""The faults in force."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from orbit_django.embedded.answers import JSON, Answer, Host, Request
from orbit_django.embedded.fault import Fault
from orbit_django.embedded.faults.calls import ASSIGNMENT, CALLS
from orbit_django.embedded.faults.kinds import KINDS, Kind
from orbit_django.exceptions import ConfigurationError


class Faults:
    """The faults in force; give it to the server and add to it at any time.

    Those that answer instead of the runtime strike one at a time, in the order in which they were added; of those that
    spoil an answer all do.
    """

    def __init__(self, *faults: Fault) -> None:
        self._faults = [replace(check(fault)) for fault in faults]
        self._lock = threading.Lock()

    def add(self, kind: str, call: str = "*", *, value: Any = None, times: int | None = 1, skip: int = 0) -> Fault:
        """Put a fault in force and return it; set its ``times`` to 0 to lift it.

        Times are milliseconds, statuses whole numbers, objects and JSON Python values; None stands for the default of
        the kind. ``answer`` also takes an Answer.
        """
        fault = check(Fault(kind, call, value, times, skip))
        with self._lock:
            self._faults.append(fault)
        return fault

    def clear(self) -> None:
        """Lift all faults."""
        with self._lock:
            self._faults.clear()

    def before(self, request: Request, host: Host) -> Answer | None:
        """Answer instead of the runtime, or change something first."""
        for fault, kind in self._kinds():
            if kind.before and self._strikes(fault, request.call):
                answer = kind.before(_value(fault, kind), request, host)
                if answer is not None:
                    return answer
        return None

    def after(self, request: Request, answer: Answer, host: Host) -> Answer:
        """Lose, hold or spoil the answer, or have the task that it hands out delivered once more."""
        is_object = answer.status == 200 and answer.content_type == JSON and answer.body.startswith(b"{")
        calls = (request.call, ASSIGNMENT) if request.call == "poll" and is_object else (request.call,)
        for fault, kind in sorted(self._kinds(), key=lambda each: each[1].is_last):
            if kind.after and (is_object or not kind.needs_object) and self._strikes(fault, *calls):
                answer = kind.after(_value(fault, kind), request, answer, host)
        return answer

    def _kinds(self) -> Iterator[tuple[Fault, Kind]]:
        with self._lock:
            faults = [fault for fault in self._faults if fault.times != 0]
        return ((fault, KINDS[fault.kind]) for fault in faults)

    def _strikes(self, fault: Fault, *calls: str) -> bool:
        with self._lock:
            return fault.strikes(*calls)


def _value(fault: Fault, kind: Kind) -> Any:
    return kind.default if fault.value is None else fault.value


def check(fault: Fault) -> Fault:
    """Return the fault; raise ConfigurationError for a kind or a call that there is not."""
    if fault.kind not in KINDS or fault.call not in CALLS:
        known = f"calls are {', '.join(CALLS)}" if fault.kind in KINDS else f"kinds are {', '.join(KINDS)}"
        raise ConfigurationError(f"fault {fault.kind}:{fault.call}: {known}")
    if fault.call == ASSIGNMENT and KINDS[fault.kind].before:
        raise ConfigurationError(f"fault {fault.kind}:{fault.call}: it strikes before there is a task; name poll")
    return fault

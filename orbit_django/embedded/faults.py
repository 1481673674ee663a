"""Faults on purpose: what a network or a runtime in trouble does to a worker.

A fault names a call (``poll``, ``complete``, …, ``other`` for the administrator's, or ``*``), how often it strikes,
and how many calls it lets pass before.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from http import HTTPStatus

from orbit_django.embedded.runtime import Runtime
from orbit_django.exceptions import ConfigurationError

CALLS = ("register", "poll", "heartbeat", "unregister", "complete", "fail", "other", "*")
_SYNTAX = re.compile(r"(?P<kind>[a-z]+):(?P<call>[a-z]+|\*)(?::(?P<value>\w+?))?(?:x(?P<times>\d+|\*))?")
_FORM = "KIND:CALL[:VALUE][xTIMES], for example lost:complete, status:poll:503x3, delay:fail:2s, expire:pollx*"


@dataclass
class Fault:
    """One disturbance."""

    kind: str  # one of KINDS
    call: str = "*"
    value: int = 0  # an HTTP status, or milliseconds
    times: int | None = 1  # None: always
    skip: int = 0  # calls let pass first

    def strikes(self, call: str) -> bool:
        """Say whether the fault meets this call, and count it."""
        if self.call not in {"*", call} or self.times == 0:
            return False
        if self.skip:
            self.skip -= 1
            return False
        if self.times is not None:
            self.times -= 1
        return True


class Faults:
    """The faults in force; give it to the server and add to it at any time."""

    def __init__(self, *faults: Fault) -> None:
        self._faults = [replace(fault) for fault in faults]
        self._lock = threading.Lock()

    def add(self, kind: str, call: str = "*", *, value: int = 0, times: int | None = 1, skip: int = 0) -> Fault:
        """Put a fault in force and return it; set its ``times`` to 0 to lift it."""
        fault = _checked(Fault(kind, call, value, times, skip))
        with self._lock:
            self._faults.append(fault)
        return fault

    def before(self, call: str, runtime: Runtime) -> tuple[int, str, bytes] | None:
        """Answer with a status instead of processing, or end the sessions first."""
        if self._struck(call, "expire"):
            _expire_sessions(runtime)
        for fault in self._struck(call, "status"):
            error = {"code": HTTPStatus(fault.value).name, "message": "injected"}
            return fault.value, "application/json", json.dumps({"error": error}).encode()
        return None

    def after(self, call: str, status: int, body: bytes, runtime: Runtime) -> bytes | None:
        """Lose or spoil the answer, or have the task that it hands out delivered once more."""
        if status == HTTPStatus.OK:
            if self._struck(call, "duplicate"):
                _deliver_again(body, runtime)
            if self._struck(call, "garbage"):
                body = body[: len(body) // 2]
        return None if self._struck(call, "lost") else body

    def pause(self, call: str) -> float:
        """Return the seconds for which to hold the answer."""
        return sum(fault.value for fault in self._struck(call, "delay")) / 1000

    def _struck(self, call: str, kind: str) -> list[Fault]:
        with self._lock:
            return [fault for fault in self._faults if fault.kind == kind and fault.strikes(call)]


def _expire_sessions(runtime: Runtime) -> None:
    for session in runtime.sessions:
        runtime.sessions.close(session, "expired on purpose")
    runtime.state.journal.commit()


def _deliver_again(body: bytes, runtime: Runtime) -> None:
    token = json.loads(body).get("token")
    found = runtime.state.find_delivery(token) if token else None
    if found and found[1].current is found[2]:
        runtime.attempts.lose(found[0], found[1], "delivered again on purpose")
        runtime.state.journal.commit()


def _no_value(text: str) -> int:
    raise ValueError


def _status(text: str) -> int:
    return HTTPStatus(int(text)).value


def _milliseconds(text: str) -> int:
    match = re.fullmatch(r"(\d+)(ms|s)", text)
    if match is None:
        raise ValueError
    return int(match[1]) * (1 if match[2] == "ms" else 1000)


# kind -> reader of its value, and the value when none is given
KINDS: dict[str, tuple[Callable[[str], int], int]] = {
    "lost": (_no_value, 0),  # processed, then the connection closes without an answer
    "status": (_status, 503),  # not processed
    "delay": (_milliseconds, 1000),  # processed, then the answer is held
    "duplicate": (_no_value, 0),  # the task just handed out is queued again while its holder works
    "expire": (_no_value, 0),  # every session ends before the call
    "garbage": (_no_value, 0),  # processed, then the answer is cut in half
}


def parse_fault(text: str) -> Fault:
    """Return the fault that a ``--fault`` option names; raises ConfigurationError."""
    match = _SYNTAX.fullmatch(text)
    if match is None or match["kind"] not in KINDS:
        raise ConfigurationError(f"--fault {text}: expected {_FORM}; kinds are {', '.join(KINDS)}")
    read, default = KINDS[match["kind"]]
    try:
        value = read(match["value"]) if match["value"] else default
    except ValueError:
        raise ConfigurationError(f"--fault {text}: `{match['value']}` is no value for {match['kind']}") from None
    times = None if match["times"] == "*" else int(match["times"] or 1)
    return _checked(Fault(match["kind"], match["call"], value, times))


def _checked(fault: Fault) -> Fault:
    if fault.kind not in KINDS or fault.call not in CALLS:
        raise ConfigurationError(f"fault {fault.kind}:{fault.call}: calls are {', '.join(CALLS)}")
    return fault

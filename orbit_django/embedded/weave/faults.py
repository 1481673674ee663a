"""Faults on purpose: what a network, a proxy or a Weave server in trouble does to a worker."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any

from orbit_django.embedded import fault_values as values
from orbit_django.embedded.fault import FORM, Fault, FaultsInForce, read_fault
from orbit_django.embedded.listener import ClosedError
from orbit_django.embedded.weave.exchange import HTML, JSON, Answer, Host, Request, problem_answer
from orbit_django.embedded.weave.problems import ProblemError, at_capacity

CALLS = ("admit", "register", "claim", "heartbeat", "complete", "fail", "context", "credentials", "token", "other", "*")
_CODES = {401: "WV-UNAUTHENTICATED", 403: "WV-FORBIDDEN", 404: "WV-NOT-FOUND", 409: "WV-LEASE", 503: "WV-COMPATIBILITY"}
_RESULTS = {"WV-LEGACY-UNAVAILABLE": {}, "WV-IR-UNSUPPORTED": {"missing_features": ["unknown"]}}
_EXAMPLES = "for example lost:complete, capacity:completex3, status:claim:503x2, delay:claim:2s"
Before = Callable[[Any, Host], Answer | None]
After = Callable[[Any, Answer, Host], Answer]


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind: a sentence about it, how its value is read and what it is by default, and what it does."""

    about: str
    read: values.Read = values.nothing
    default: Any = None
    before: Before | None = None
    after: After | None = None  # only for answers of success
    is_last: bool = False  # leaves nothing that another one could read


def _lost(value: Any, answer: Answer, host: Host) -> Answer:
    raise ClosedError


def _drop(value: Any, host: Host) -> Answer | None:
    raise ClosedError


def _status(value: int | tuple[int, str], host: Host) -> Answer | None:
    status = values.Status(value) if isinstance(value, int) else values.Status(*value)
    code = status.code or _CODES.get(status.number, "WV-INTERNAL")
    return problem_answer(ProblemError(status.number, code, result=_RESULTS.get(code)))


def _capacity(code: str, host: Host) -> Answer | None:
    return problem_answer(at_capacity(code))


def _html(status: int, host: Host) -> Answer | None:
    return Answer(status, f"<html><h1>{status} {HTTPStatus(status).phrase}</h1></html>".encode(), HTML)


def _hold(milliseconds: int, host: Host) -> Answer | None:
    host.pause(milliseconds / 1000)
    return None


def _advance(milliseconds: int, host: Host) -> Answer | None:
    host.advance(milliseconds / 1000)
    return None


def _stall(milliseconds: int, host: Host) -> Answer | None:
    """Let the time pass between the last check and the commit of the next settlement."""
    with host.changing() as platform:
        settlement = platform.settlement

        def pass_time() -> None:
            settlement.before_write = lambda: None
            host.advance(milliseconds / 1000)

        settlement.before_write = pass_time
    return None


def _lock(milliseconds: int, host: Host) -> Answer | None:
    host.hold_project(milliseconds / 1000)
    return None


def _expire(value: Any, host: Host) -> Answer | None:
    with host.changing() as platform:
        platform.operators.expire_tokens()
    return None


def _delay(milliseconds: int, answer: Answer, host: Host) -> Answer:
    host.pause(milliseconds / 1000)
    return answer


def _garbage(value: Any, answer: Answer, host: Host) -> Answer:
    return replace(answer, body=answer.body[: len(answer.body) // 2])


def _cut(value: Any, answer: Answer, host: Host) -> Answer:
    return replace(answer, is_cut=True)


def _answer(value: Any, answer: Answer, host: Host) -> Answer:
    return replace(answer, body=json.dumps(value).encode())


def _set(members: dict[str, Any], answer: Answer, host: Host) -> Answer:
    value = json.loads(answer.body)
    changed = [one | members for one in value] if isinstance(value, list) else value | members
    return replace(answer, body=json.dumps(changed).encode())


KINDS: dict[str, Kind] = {
    "lost": Kind("executed and committed, then the connection closes without an answer", after=_lost),
    "drop": Kind("not executed: the connection closes without an answer", before=_drop),
    "status": Kind("not executed: STATUS or STATUS/CODE as a problem", values.status, 503, before=_status),
    "capacity": Kind("not executed: 429 with this code", values.word, "WV-OPERATION-CAPACITY", before=_capacity),
    "html": Kind("not executed: the status with a page, as of a proxy", values.number, 502, before=_html),
    "hold": Kind("held for a time, then executed", values.milliseconds, 1000, before=_hold),
    "delay": Kind("executed, then the answer is held for a time", values.milliseconds, 1000, after=_delay),
    "advance": Kind("the server's clock jumps before the call", values.milliseconds, 16_000, before=_advance),
    "stall": Kind(
        "the server's clock jumps between the last check of a settlement and its commit",
        values.milliseconds,
        16_000,
        before=_stall,
    ),
    "lock": Kind("another process holds the lock of the project for a time", values.milliseconds, 600, before=_lock),
    "expire": Kind("every access token expires before the call", before=_expire),
    "garbage": Kind("executed; of the JSON only the first half is answered", after=_garbage, is_last=True),
    "cut": Kind("executed; the connection closes in the middle of the answer", after=_cut),
    "answer": Kind("executed; a success is answered with this JSON instead", values.anything, {}, after=_answer),
    "set": Kind("executed; members of the answer are replaced by these", values.members, {}, after=_set),
}


class Faults(FaultsInForce[Kind]):
    """The faults in force; of those that answer instead of the server one strikes at a time, of the others all."""

    kinds, calls = KINDS, CALLS

    def before(self, request: Request, host: Host) -> Answer | None:
        """Answer instead of the server, or change something first."""
        for fault, kind, value in self._in_force():
            if kind.before and self._strikes(fault, request.call):
                answer = kind.before(value, host)
                if answer is not None:
                    return answer
        return None

    def after(self, request: Request, answer: Answer, host: Host) -> Answer:
        """Lose, hold or spoil a success."""
        is_success = answer.status < HTTPStatus.MULTIPLE_CHOICES and answer.content_type == JSON
        for fault, kind, value in self._spoiling():
            if kind.after and is_success and self._strikes(fault, request.call):
                answer = kind.after(value, answer, host)
        return answer


def parse_fault(text: str) -> Fault:
    """Return the fault that a ``--fault`` option names; raises ConfigurationError."""
    return Faults.check(read_fault(text, KINDS, _EXAMPLES))


def explain() -> str:
    """Return what the help says of ``--fault``, a line for each kind."""
    lines = [f"Faults: {FORM}. Calls: {', '.join(CALLS)}."]
    return "\n".join([*lines, *(f"  {name:<10} {kind.about}" for name, kind in KINDS.items())])

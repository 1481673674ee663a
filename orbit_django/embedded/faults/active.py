"""The faults in force."""

from __future__ import annotations

from orbit_django.embedded.answers import JSON, Answer, Host, Request
from orbit_django.embedded.fault import Fault, FaultsInForce
from orbit_django.embedded.faults.calls import ASSIGNMENT, CALLS
from orbit_django.embedded.faults.kinds import KINDS, Kind
from orbit_django.exceptions import ConfigurationError


class Faults(FaultsInForce[Kind]):
    """The faults in force; give it to the server and add to it at any time.

    Those that answer instead of the runtime strike one at a time, in the order in which they were added; of those that
    spoil an answer all do. The value of ``answer`` may be an Answer.
    """

    kinds, calls = KINDS, CALLS

    @classmethod
    def check(cls, fault: Fault) -> Fault:
        """Return the fault; raise ConfigurationError for one that there is not, or that could never strike."""
        super().check(fault)
        if fault.call == ASSIGNMENT and KINDS[fault.kind].before:
            raise ConfigurationError(f"fault {fault.kind}:{fault.call}: it strikes before there is a task; name poll")
        return fault

    def before(self, request: Request, host: Host) -> Answer | None:
        """Answer instead of the runtime, or change something first."""
        for fault, kind, value in self._in_force():
            if kind.before and self._strikes(fault, request.call):
                answer = kind.before(value, request, host)
                if answer is not None:
                    return answer
        return None

    def after(self, request: Request, answer: Answer, host: Host) -> Answer:
        """Lose, hold or spoil the answer, or have the task that it hands out delivered once more."""
        is_object = answer.status == 200 and answer.content_type == JSON and answer.body.startswith(b"{")
        calls = (request.call, ASSIGNMENT) if request.call == "poll" and is_object else (request.call,)
        for fault, kind, value in self._spoiling():
            if kind.after and (is_object or not kind.needs_object) and self._strikes(fault, *calls):
                answer = kind.after(value, request, answer, host)
        return answer

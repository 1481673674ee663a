"""Secrets that the platform lends to a lease: asked for anew each time, kept nowhere."""

from __future__ import annotations

import json
import threading
from typing import Any

from orbit_django.exceptions import (
    ConfigurationError,
    CredentialsError,
    NoAnswerError,
    PayloadError,
    TransportError,
)
from orbit_django.protocol import CredentialLease
from orbit_django.redaction import MET
from orbit_django.transports.answers import Answer
from orbit_django.transports.weave.calls import CALL_SECONDS, WeaveCalls
from orbit_django.transports.weave.keeping import Held, Leases, capacity_wait
from orbit_django.transports.weave.words import is_capacity, read_time


class Lending:
    """Credential leases for the handlers of this process; safe from many threads."""

    def __init__(self, calls: WeaveCalls, leases: Leases, closed: threading.Event) -> None:
        self._calls = calls
        self._leases = leases
        self._closed = closed

    def lend(self, proof: str, slot: str) -> CredentialLease:
        """Return the secret of a slot of the connection that is bound to this lease's task (V90 to V93).

        Raises CredentialsError, which names the slot and says why there is none.
        """
        try:
            held = self._find(proof)
            if not held.revision:
                self._look_up(held)
            if slot not in held.slots:
                known = ", ".join(sorted(held.slots)) or "none"
                raise CredentialsError(f"the connection of this task has no slot {slot!r}; it has: {known}")
            return self._fetch(held, slot)
        except CredentialsError as error:
            raise CredentialsError(f"credentials for the slot {slot!r}: {error}") from None
        except (TransportError, PayloadError, ConfigurationError) as error:
            raise CredentialsError(f"credentials for the slot {slot!r}: {error}") from None

    def _find(self, proof: str) -> Held:
        held = self._leases.find(proof)
        if held is None:
            raise CredentialsError("the lease of this delivery has ended")
        return held

    def _look_up(self, held: Held) -> None:
        """Learn which connection the run's activation binds to the task."""
        connection = self._ask("/tasks/context", held.proof, held).get("connection")
        if not isinstance(connection, dict):
            raise CredentialsError("no connection is bound to this task; its activation would have to name one")
        revision, slots = connection.get("revision_id"), connection.get("secret_slots")
        if not isinstance(revision, str) or not isinstance(slots, list):
            raise NoAnswerError("the answer names no connection")
        held.slots, held.revision = tuple(str(each) for each in slots), revision

    def _fetch(self, held: Held, slot: str) -> CredentialLease:
        wanted = json.dumps({"connection_revision_id": held.revision, "slot": slot})
        found = self._ask("/tasks/credentials", f'{{"lease":{held.proof},{wanted[1:]}', held)
        value, version = found.get("value"), found.get("provider_version")
        if not isinstance(value, str):
            raise NoAnswerError("the answer holds no secret")
        MET.note(value)
        return CredentialLease(value, version if isinstance(version, str) else None, read_time(found, "expires_at"))

    def _ask(self, path: str, body: str, held: Held) -> dict[str, Any]:
        """Ask with identical bytes while the platform is at capacity and the lease lives (V21)."""
        tries = 0
        while True:
            answer = self._calls.post(path, body, CALL_SECONDS)
            if not is_capacity(answer):
                return self._value(answer)
            tries += 1
            if self._leases.find(held.proof) is None or self._closed.wait(capacity_wait(tries)):
                raise CredentialsError("the platform was at capacity until the lease had ended")

    def _value(self, answer: Answer) -> dict[str, Any]:
        if answer.status != 200:
            raise self._calls.failure(answer)
        value = answer.value()
        if not isinstance(value, dict):
            raise NoAnswerError("the answer is not an object")
        return value

"""The Weave binding: leases claimed for the threads that are free, renewed one by one, settled under completion ids.

An instance is what other bindings call a session. Nothing is retried here but what the platform turned away before
anything happened, with identical bytes, and nothing is run again: an outcome whose answer was lost is sent again by
the relay.
"""

from __future__ import annotations

import json
import logging
import threading
from datetime import datetime
from typing import Any

from orbit_django.clock import Clock, SystemClock
from orbit_django.conf.weave import NO_RELEASE, WeaveSettings
from orbit_django.exceptions import ConfigurationError, NoAnswerError, PayloadError, RefusedError, UnknownSessionError
from orbit_django.logs import SteadyLogger
from orbit_django.protocol import Assignment, CredentialLease, Kind, Receipt, Registration, Session
from orbit_django.redaction import MET
from orbit_django.transports.answers import Answer
from orbit_django.transports.base import Deliveries
from orbit_django.transports.weave.calls import WeaveCalls
from orbit_django.transports.weave.feed import Feed
from orbit_django.transports.weave.keeping import Held, Leases, capacity_wait
from orbit_django.transports.weave.lending import Lending
from orbit_django.transports.weave.wallclock import PlatformTime
from orbit_django.transports.weave.words import (
    FORBIDDEN,
    LEASE_LOST,
    Lease,
    check_output,
    final_refusal,
    is_capacity,
    problem,
    proof_of,
    read_lease,
    read_receipt,
    read_time,
    release_refusal,
    report_of,
    secret_of,
)

logger = SteadyLogger(logging.getLogger(__name__))

BEAT_SECONDS = 0.25
LEASE_SECONDS = 15.0  # how long a lease lives without renewal, as far as the platform is known
SEND_SECONDS = 8.0  # how long an outcome is sent again while the platform is at capacity; the rest is a last call's
MAX_TYPES = 100


class WeaveTransport:
    """The contract of a binding over Weave's remote worker protocol; ``options`` are those of HttpConnection."""

    name = "weave"

    def __init__(
        self, settings: WeaveSettings, *, capacity: int = 1, clock: Clock | None = None, **options: Any
    ) -> None:
        if missing := settings.lacking():
            raise ConfigurationError(f"WEAVE: {missing[0]}")
        self._clock = clock or SystemClock()
        self._settings = settings
        self._capacity = min(capacity, MAX_TYPES)
        self._calls = WeaveCalls(settings, self._clock, **options)
        self._time = PlatformTime(self._clock)
        self._leases = Leases(self._clock)
        self._feed = Feed(self._claim, self._clock)
        self._closed = threading.Event()
        self.server = self._calls.address
        self.deliveries = Leased(self._leases, self._feed, Lending(self._calls, self._leases, self._closed))

    def register(self, registration: Registration) -> Session:
        """Register an instance of the release; each call makes a new one (V30)."""
        types = [f"{each.task_name}@{each.contract_version}" for each in registration.contracts]
        if self._settings.release_id is None:
            raise ConfigurationError(f"WEAVE: {NO_RELEASE}")
        if not 1 <= len(types) <= MAX_TYPES:
            raise ConfigurationError(f"an instance offers 1 to {MAX_TYPES} tasks, found {len(types)}; use --task")
        body = {"release_id": self._settings.release_id, "task_types": types, "capacity": self._capacity}
        answer = self._calls.post("/workers", json.dumps(body), is_start=True)
        if problem(answer)[0] in (FORBIDDEN, LEASE_LOST):
            raise release_refusal(answer, self._settings.release_id, types)
        made = self._object(answer).get("id")
        if not isinstance(made, str) or not made:
            raise NoAnswerError("the answer names no instance")
        return Session(made, int(BEAT_SECONDS * 1000), int(LEASE_SECONDS * 1000))

    def poll(self, session_id: str, wait_ms: int) -> Assignment | None:
        """Return a lease for this thread; claims are made for all that wait here (V31)."""
        return self._feed.poll(session_id, wait_ms)

    def heartbeat(self, session_id: str, *, timeout_seconds: float) -> tuple[str, ...]:
        """Renew what is due, each lease by itself; return the proofs of those that are lost (V32 to V34)."""
        refused = [held.proof for held in self._leases.due(BEAT_SECONDS) if self._is_lost(held, timeout_seconds)]
        return (*refused, *self._leases.lost())

    def check_report(self, kind: Kind, body: str) -> None:
        """Look at size, depth and numbers of an output before it is committed (V57, V58)."""
        if kind is Kind.COMPLETE:
            check_output(body)

    def send(self, kind: Kind, body: str) -> Receipt:
        """Report an outcome; the same report makes the same bytes (V50 to V84)."""
        proof = proof_of(body)
        MET.note(secret_of(proof))
        path, text = report_of(kind, body)
        answer = self._insist(path, text)
        receipt = read_receipt(answer.value(), text) if answer.status == 200 else self._refusal(answer, kind, proof)
        self._leases.remove(proof)
        return receipt

    def unregister(self, session_id: str, *, timeout_seconds: float) -> None:
        """Do nothing: an instance ends by itself when nobody uses it, and only an operator can revoke it (V35)."""

    def close(self) -> None:
        """Let go of every connection."""
        self._closed.set()
        self._calls.close()

    def _claim(self, session_id: str, limit: int) -> list[Assignment] | None:
        """Claim; leases whose answer was lost come again by themselves, so that no instance is in doubt."""
        try:
            return self._claimed(session_id, limit)
        except NoAnswerError as error:
            raise NoAnswerError(str(error), is_maybe_processed=False) from None

    def _claimed(self, session_id: str, limit: int) -> list[Assignment] | None:
        wall, now = self._clock.wall(), self._clock.monotonic()
        answer = self._calls.post("/tasks/claim", json.dumps({"worker_id": session_id, "limit": limit}))
        if is_capacity(answer):
            return None
        if answer.status != 200:
            raise self._claim_error(answer)
        found = answer.value()
        if not isinstance(found, list):
            raise NoAnswerError("the answer to a claim is no list")
        self._time.learn(answer.headers.get("date", ""), wall)
        return [made for each in found if (made := self._take(each, now)) is not None]

    def _claim_error(self, answer: Answer) -> Exception:
        """Return what a refused claim means; a refusal that is not the platform's own is none."""
        if problem(answer)[0] == LEASE_LOST:
            return UnknownSessionError("the platform does not know this instance, or it was revoked")
        error = self._calls.failure(answer)
        if isinstance(error, RefusedError) and (error.code or error.status == 401):
            return RefusedError(error.status, error.code, error.message, is_from_runtime=True)
        return NoAnswerError(str(error))

    def _take(self, body: object, began: float) -> Assignment | None:
        """Hold a lease and return it as an assignment; one that cannot be read expires by itself."""
        try:
            lease = read_lease(body)
        except PayloadError as error:
            logger.error("a lease cannot be read; it will expire", extra={"error": str(error)})
            return None
        MET.note(lease.secret)
        expires = began + self._time.until(lease.expires_at)
        deadline = began + self._time.until(lease.deadline)
        self._leases.add(lease.proof, expires, deadline)
        return assignment_of(lease, deadline - self._clock.monotonic())

    def _is_lost(self, held: Held, timeout_seconds: float) -> bool:
        """Renew a lease; return whether the platform refuses to."""
        began = self._clock.monotonic()
        limit = max(min(timeout_seconds, held.expires - began), 0.05)
        try:
            answer = self._calls.post("/tasks/heartbeat", held.proof, limit)
            if answer.status == 200:
                expires = began + self._time.until(read_time(self._object(answer), "expires_at"))
                self._leases.renewed(held, expires)
                return False
        except (NoAnswerError, PayloadError, ConfigurationError) as error:
            logger.info("the renewal of a lease got no answer", extra={"error": str(error)})
            self._leases.put_off(held)
            return False
        return self._is_refused(held, answer)

    def _is_refused(self, held: Held, answer: Answer) -> bool:
        code = problem(answer)[0]
        if is_capacity(answer) or not code or answer.status not in (403, 404, 409):
            self._leases.put_off(held, is_capacity=is_capacity(answer))
            return False
        is_lost = self._leases.refuse(held, is_certain=code != LEASE_LOST)
        if is_lost:
            logger.warning(
                "a lease was lost; its handler is told to stop", extra={"status": answer.status, "code": code}
            )
        return is_lost

    def _insist(self, path: str, text: str) -> Answer:
        """Send identical bytes while the platform is at capacity, for a while (V21)."""
        end, tries = self._clock.monotonic() + SEND_SECONDS, 0
        while True:
            left = end - self._clock.monotonic()
            answer = self._calls.post(path, text, max(left, 1.0))
            tries += 1
            if not is_capacity(answer):
                return answer
            if left <= capacity_wait(tries) or self._closed.wait(capacity_wait(tries)):
                raise NoAnswerError(f"the platform was at capacity {tries} times in a row", is_maybe_processed=False)

    def _refusal(self, answer: Answer, kind: Kind, proof: str) -> Receipt:
        """Return the receipt of a final refusal; raise for one that leaves the attempt open, or says nothing."""
        code, message = problem(answer)
        receipt = final_refusal(answer.status, code, message) if code else None
        if receipt is not None:
            return receipt
        error = self._calls.failure(answer)
        if kind is Kind.FAIL and isinstance(error, RefusedError) and error.is_from_runtime and error.status != 413:
            self._leases.remove(proof)  # nothing more can be said of this attempt
        raise error

    def _object(self, answer: Answer) -> dict[str, Any]:
        if not answer.is_success:
            raise self._calls.failure(answer)
        value = answer.value()
        if not isinstance(value, dict):
            raise NoAnswerError("the answer is not an object")
        return value


class Leased(Deliveries):
    """What a worker owes to each lease."""

    keepers = 4

    def __init__(self, leases: Leases, feed: Feed, lending: Lending) -> None:
        self._leases = leases
        self._feed = feed
        self._lending = lending

    def take(self, token: str) -> None:
        """Note that a lease has arrived in the room that runs it."""
        self._leases.take(token)

    def drop(self, token: str) -> None:
        """Renew a lease no more; it expires, and recovery decides."""
        self._leases.remove(token)

    def stop_polls(self, timeout_seconds: float) -> bool:
        """Claim no more; return whether all that was claimed has arrived where it is run."""
        return self._feed.stop(timeout_seconds) and self._leases.are_taken(timeout_seconds)

    def credentials(self, token: str, slot: str) -> CredentialLease:
        """Return what the platform lends to this lease; raise CredentialsError when it does not."""
        return self._lending.lend(token, slot)


def assignment_of(lease: Lease, remaining_seconds: float) -> Assignment:
    """Return a lease in the words of the worker: the operation key is the key, the generation the attempt (V41)."""
    name, _, version = lease.capability.rpartition("@")
    run, _, step = lease.operation_key.partition(":")
    return Assignment(
        token=lease.proof,
        execution_id=run,
        workflow="",
        workflow_version="",
        step_id=step,
        task_name=name,
        contract_version=version,
        input=lease.input,
        idempotency_key=lease.operation_key,
        attempt=lease.generation,
        deadline_ms=_milliseconds(lease.deadline),
        timeout_ms=max(int(remaining_seconds * 1000), 0),
        is_leased=True,
    )


def _milliseconds(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)


__all__ = ["Leased", "WeaveTransport", "assignment_of"]

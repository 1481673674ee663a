"""The claim keeper: claims of tasks that are not atomic live on as long as their handlers run."""

from __future__ import annotations

import logging
import threading

from django.db import DatabaseError, InterfaceError

from orbit_django import idempotency
from orbit_django.logs import SteadyLogger
from orbit_django.verdicts import Claim
from orbit_django.worker import housekeeping

logger = SteadyLogger(logging.getLogger(__name__))

IDLE_SECONDS = 1.0


class Claims:
    """The claims that this process holds, and the loop that renews them at a third of their life."""

    name = "claims"

    def __init__(self, claim_seconds: float) -> None:
        self.claim_seconds = claim_seconds
        self._lock = threading.Lock()
        self._held: dict[str, Claim] = {}

    def add(self, claim: Claim) -> None:
        """Keep a claim alive from now on."""
        with self._lock:
            self._held[claim.owner] = claim

    def remove(self, claim: Claim) -> None:
        """Let a claim end."""
        with self._lock:
            self._held.pop(claim.owner, None)

    def step(self) -> float:
        """Renew every claim, each on its own; without claims the database is left alone."""
        with self._lock:
            held = list(self._held.values())
        if not held:
            return min(IDLE_SECONDS, self.claim_seconds / 3)
        housekeeping.before_task()
        for claim in held:
            try:
                idempotency.extend([claim], self.claim_seconds)
            except (DatabaseError, InterfaceError) as error:
                logger.warning("a claim could not be renewed", extra={"error": repr(error)})
        return self.claim_seconds / 3

"""The leases that this process holds: when each is renewed, and when one is lost.

Local clocks count: a time of the platform is turned into a moment of the monotonic clock when it arrives.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from orbit_django.clock import Clock

REFUSED_WAITS = (1.0, 2.0)  # a run that is suspended for a moment refuses renewals (V33): the lease lives on meanwhile
UNANSWERED_SECONDS = 1.0
LEAST_SECONDS = 0.05


def capacity_wait(tries: int) -> float:
    """Return the wait after so many answers that the platform is at capacity, in seconds (V21)."""
    return min(0.05 * 2.0 ** (tries - 1), 0.25)


@dataclass(slots=True)
class Held:
    """One lease; all times are moments of the monotonic clock."""

    proof: str = field(repr=False)
    expires: float
    renew_at: float
    deadline: float
    revision: str = ""  # of the connection that is bound to it, once known
    slots: tuple[str, ...] = ()
    refused: int = 0
    busy: int = 0  # answers in a row that the platform is at capacity
    is_renewing: bool = False
    is_taken: bool = False


class Leases:
    """Leases by their proofs; safe from many threads."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._changed = threading.Condition()
        self._held: dict[str, Held] = {}

    def __len__(self) -> int:
        return len(self._held)

    def add(self, proof: str, expires: float, deadline: float) -> None:
        """Hold a lease from now on."""
        now = self._clock.monotonic()
        with self._changed:
            self._held[proof] = Held(proof, expires, now + (expires - now) / 3, deadline)
            self._changed.notify_all()

    def find(self, proof: str) -> Held | None:
        """Return a lease that is held and has not expired."""
        held = self._held.get(proof)
        return held if held is not None and self._clock.monotonic() < held.expires else None

    def take(self, proof: str) -> None:
        """Note that somebody answers for a lease."""
        with self._changed:
            if proof in self._held:
                self._held[proof].is_taken = True
            self._changed.notify_all()

    def are_taken(self, seconds: float) -> bool:
        """Wait until somebody answers for every lease; return whether it came to that."""
        with self._changed:
            return self._changed.wait_for(lambda: all(held.is_taken for held in self._held.values()), seconds)

    def remove(self, proof: str) -> None:
        """Let go of a lease: its outcome was answered, or there will be none."""
        with self._changed:
            self._held.pop(proof, None)
            self._changed.notify_all()

    def due(self, seconds: float) -> Iterator[Held]:
        """Yield each lease that is to be renewed within so many seconds, at its moment; each to one thread alone."""
        end = self._clock.monotonic() + seconds
        while (held := self._take(end)) is not None:
            yield held

    def lost(self) -> tuple[str, ...]:
        """Let go of what has expired; return the proofs."""
        now = self._clock.monotonic()
        with self._changed:
            gone = [held.proof for held in self._held.values() if now >= held.expires and not held.is_renewing]
            for proof in gone:
                del self._held[proof]
            self._changed.notify_all()
        return tuple(gone)

    def renewed(self, held: Held, expires: float) -> None:
        """Note a renewal."""
        now = self._clock.monotonic()
        held.expires = expires
        held.refused = held.busy = 0
        self._again(held, (expires - now) / 3)

    def put_off(self, held: Held, *, is_capacity: bool = False) -> None:
        """Note that nothing final came back: tried again soon, as long as the lease lives."""
        held.busy = held.busy + 1 if is_capacity else 0
        wait = capacity_wait(held.busy) if is_capacity else UNANSWERED_SECONDS
        self._again(held, min(wait, (held.expires - self._clock.monotonic()) / 3))

    def refuse(self, held: Held, *, is_certain: bool) -> bool:
        """Note a refusal; return whether the lease is lost by it."""
        if is_certain or held.refused >= len(REFUSED_WAITS):
            self._again(held, 0.0)
            self.remove(held.proof)
            return True
        held.refused += 1
        self._again(held, REFUSED_WAITS[held.refused - 1])
        return False

    def _again(self, held: Held, seconds: float) -> None:
        with self._changed:
            held.renew_at = self._clock.monotonic() + max(seconds, LEAST_SECONDS)
            held.is_renewing = False
            self._changed.notify_all()

    def _take(self, end: float) -> Held | None:
        while True:
            with self._changed:
                now = self._clock.monotonic()
                waiting = [
                    held for held in self._held.values() if not held.is_renewing and held.renew_at < held.deadline
                ]
                first = min(waiting, key=lambda held: held.renew_at, default=None)
                if first is not None and first.renew_at <= now:
                    first.is_renewing = True
                    return first
                if now >= end:
                    return None
                until = end if first is None else min(end, first.renew_at)
                self._changed.wait(until - now)


Renew = Callable[[Held], bool]

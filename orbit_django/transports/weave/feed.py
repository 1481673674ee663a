"""Claims for the threads that are free: one asks for all of them, and each gets one lease.

There is no long poll in this protocol, so this room waits between two claims: no time at all while work flows, up to
a second, by chance a little more or less, while there is none.
"""

from __future__ import annotations

import random
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from orbit_django.clock import Clock
from orbit_django.exceptions import NoAnswerError, TransportError, UnknownSessionError
from orbit_django.protocol import Assignment

MAX_CLAIM = 100
FLOW_SECONDS = 0.01  # between a claim that brought work and the next: threads that end together ask together
FRESH_SECONDS = 0.1  # between an empty claim and the one for a thread that just became free
FIRST_SECONDS, TOP_SECONDS = 0.25, 1.0  # between claims while nothing comes
TROUBLE_SECONDS = 5.0  # the longest wait while claims fail

Claim = Callable[[str, int], Sequence[Assignment] | None]  # of an instance and a limit; None: at capacity


@dataclass(slots=True, eq=False)
class Seat:
    """One thread that waits for a delivery."""

    session_id: str
    is_counted: bool = False  # part of the claim that is under way
    was_asked_for: bool = False  # a claim that counted it has been answered
    assignment: Assignment | None = None
    error: TransportError | None = None


class Feed:
    """Hands out what claims bring; safe from many threads."""

    def __init__(self, claim: Claim, clock: Clock) -> None:
        self._claim = claim
        self._clock = clock
        self._changed = threading.Condition()
        self._seats: deque[Seat] = deque()
        self._surplus: deque[Assignment] = deque()
        self._is_claiming = self._is_stopped = False
        self._claimed_at = self._next_at = 0.0
        self._gap = FLOW_SECONDS  # before a claim for a thread that just became free
        self._wait = FIRST_SECONDS
        self._trouble = ""

    def poll(self, session_id: str, wait_ms: int) -> Assignment | None:
        """Return a delivery, or None when claims brought none for that long; raise what a claim raised."""
        seat = Seat(session_id)
        end = self._clock.monotonic() + wait_ms / 1000
        with self._changed:
            self._seats.append(seat)
            self._next_at = min(self._next_at, self._claimed_at + self._gap)
            self._changed.notify_all()
        try:
            while not self._is_over(seat, end):
                self._work(seat, end)
        finally:
            with self._changed:
                self._seats.remove(seat)
                self._changed.notify_all()
        if seat.error is not None:
            raise seat.error
        return seat.assignment

    def stop(self, seconds: float) -> bool:
        """End the polls that wait; return whether no claim is under way and nothing is left to be handed out."""
        with self._changed:
            self._is_stopped = True
            self._changed.notify_all()
            return self._changed.wait_for(lambda: not self._is_claiming and not self._seats, seconds)

    def _is_over(self, seat: Seat, end: float) -> bool:
        with self._changed:
            if seat.assignment is None and seat.error is None and self._surplus:
                seat.assignment = self._surplus.popleft()
            if seat.assignment is not None or seat.error is not None:
                return True
            if seat.is_counted:
                return False
            is_late = self._clock.monotonic() >= end
            if is_late and not seat.was_asked_for and self._trouble and not self._is_stopped:
                seat.error = NoAnswerError(self._trouble, is_maybe_processed=False)
            return self._is_stopped or (is_late and (seat.was_asked_for or bool(self._trouble)))

    def _work(self, seat: Seat, end: float) -> None:
        """Claim for everybody, when it is this thread's turn and time; else wait for whatever comes first."""
        with self._changed:
            now = self._clock.monotonic()
            is_turn = self._seats[0] is seat and not self._is_claiming
            if not is_turn or now < self._next_at:
                moments = [self._next_at] if is_turn else []
                moments += [end] if end > now else []
                self._changed.wait(min(moments) - now if moments else FRESH_SECONDS)
                return
            counted = [each for each in self._seats if each.error is None][:MAX_CLAIM]
            for each in counted:
                each.is_counted = True
            self._is_claiming = True
        found: Sequence[Assignment] | None = None
        error: TransportError | None = None
        try:
            found = self._claim(seat.session_id, len(counted))
        except TransportError as raised:
            error = raised
        finally:
            with self._changed:
                self._hand_out(seat, counted, found, error)

    def _hand_out(
        self, leader: Seat, counted: list[Seat], found: Sequence[Assignment] | None, error: TransportError | None
    ) -> None:
        self._is_claiming = False
        for each in counted:
            each.is_counted = False
            each.was_asked_for = each.was_asked_for or found is not None
        for assignment in found or ():
            free = next((each for each in counted if each.assignment is None), None)
            if free is None:
                self._surplus.append(assignment)
            else:
                free.assignment = assignment
        if error is not None:
            leader.error = error
            self._tell_unknown(leader.session_id, error)
        self._pace(found, error)
        self._changed.notify_all()

    def _tell_unknown(self, session_id: str, error: TransportError) -> None:
        """Let every thread know of an instance that the platform does not know; one claim is enough to learn it."""
        if isinstance(error, UnknownSessionError):
            for each in self._seats:
                if each.session_id == session_id and each.error is None:
                    each.error = UnknownSessionError(str(error))

    def _pace(self, found: Sequence[Assignment] | None, error: TransportError | None) -> None:
        """Decide when the next claim is made."""
        self._claimed_at = self._clock.monotonic()
        self._trouble = str(error) if error is not None else ""
        if found:
            self._gap, self._wait = FLOW_SECONDS, FIRST_SECONDS
        else:
            top = TOP_SECONDS if error is None else TROUBLE_SECONDS
            self._gap = FRESH_SECONDS if error is None else self._wait
            self._wait = min(self._wait * 2, top)
        jitter = random.uniform(0.75, 1.25)  # noqa: S311  (no secret)
        self._next_at = self._claimed_at + (FLOW_SECONDS if found else min(self._wait, TROUBLE_SECONDS) * jitter)

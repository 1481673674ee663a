"""Database work inside a task that is not atomic: committed together with its result, or not at all."""

from __future__ import annotations

import contextvars
import json
from collections.abc import Callable
from types import TracebackType
from typing import Any, Protocol, Self

from orbit_django import idempotency
from orbit_django.dialects import dialect_of
from orbit_django.effects.rows import Call, Rows, Status, refuse_inside
from orbit_django.exceptions import TransactionEndedError
from orbit_django.payloads import compact, plain

MAX_TRIES = 6  # work that the database undid is run again at most five times
BROKEN = (
    "was ended or broken while its function ran: by a raw COMMIT or ROLLBACK, by a statement that commits implicitly,"
    " by a database error that was caught, or by closing the connection"
)


class Enclosed(Protocol):
    """A watched transaction, which raises TransactionEndedError instead of committing what is no longer itself."""

    def __enter__(self) -> Self:
        """Open it."""
        ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Commit it, or roll it back on an error."""
        ...

    def hand_over(self) -> None:
        """Let others work in it."""
        ...

    def take_back(self) -> None:
        """Look at what they left."""
        ...

    def run_hooks(self, scope: contextvars.Context) -> None:
        """Run what they registered for after the commit."""
        ...


class Pieces:
    """The pieces of work of one run, under its claim."""

    def __init__(self, rows: Rows, repeat: Callable[..., Any], enclose: Callable[[str], Enclosed]) -> None:
        self._rows = rows
        self._repeat = repeat  # does a database step again while the database is away
        self._enclose = enclose  # opens a watched transaction on an alias

    def run(self, call: Call) -> Any:
        """Return the result of the work, done now or before; repeat what the database undid."""
        is_again = False

        def step() -> Any:
            nonlocal is_again
            if is_again:  # the commit before may have had no answer: the lock is free when it has ended
                self._repeat(self._fence)
            is_again = True
            return self._once(call)

        return self._repeat(step, tries=MAX_TRIES)

    def _fence(self) -> None:
        with self._rows.committing():
            idempotency.fence(self._rows.claim)

    def _once(self, call: Call) -> Any:
        """Run the work and, last of all, fence it and keep its result, in the very transaction that it began in."""
        using = self._rows.claim.using
        refuse_inside(using)
        enclosure = self._enclose(using)
        with enclosure:
            present = self._rows.find(call)
            if present is not None:
                return json.loads(present.result or "null")
            dialect = dialect_of(using)
            mark = dialect.mark()
            enclosure.hand_over()
            text = compact(plain(call()))
            enclosure.take_back()
            if not dialect.is_marked(mark):
                raise TransactionEndedError(f"the transaction of ctx.transaction({call.name!r}) {BROKEN}")
            idempotency.fence(self._rows.claim)
            self._rows.insert(call, Status.FINISHED, text)
        enclosure.run_hooks(contextvars.copy_context())
        return json.loads(text)

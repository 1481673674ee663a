"""External effects inside a task that is not atomic: begun, called, kept, or left open.

An effect is on record before the outside world is called and again afterwards, each time in a commit of its own.
One that began and never ended is not called again unless that is known to be harmless: a person, or a look at the
outside world, must say what became of it.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from django.db import connections, transaction
from django.utils import timezone

from orbit_django import idempotency
from orbit_django.dialects import dialect_of
from orbit_django.exceptions import ConfigurationError, EffectUncertainError, PayloadError, TaskError
from orbit_django.logs import about
from orbit_django.models import Effect
from orbit_django.payloads import compact, digest, plain, storable
from orbit_django.verdicts import Claim

logger = logging.getLogger(__name__)

Status = Effect.Status
LIMIT_TEXT = 4_000
MAX_TRIES = 6  # database work that the database undid is run again at most five times
ENDED = "the run that began it ended before its result was kept"


@dataclass(frozen=True, slots=True)
class Call:
    """One use of ``ctx.effect`` or ``ctx.transaction``."""

    kind: str
    name: str
    function: Callable[..., Any]
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    is_idempotent: bool = False
    find: Callable[..., Any] | None = None

    @property
    def name_hash(self) -> str:
        """What identifies the effect within its record."""
        return digest(self.kind, self.name)

    def __call__(self) -> Any:
        """Call the function."""
        return self.function(*self.args, **self.kwargs)


class ClaimedEffects:
    """The effects of one run, under its claim."""

    def __init__(self, claim: Claim, redact: Callable[[str], str], repeat: Callable[..., Any]) -> None:
        self._claim = claim
        self._redact = redact
        self._repeat = repeat  # does a database step again while the database is away
        self._called: set[str] = set()  # what this run has called already

    def effect(
        self,
        name: str,
        function: Callable[..., Any],
        *args: Any,
        idempotent: bool = False,
        find: Callable[..., Any] | None = None,
        **kwargs: Any,
    ) -> Any:
        """Call the outside world once; see ``TaskContext.effect``."""
        call = Call("effect", name, function, args, kwargs, idempotent, find)
        effect = self._repeat(lambda: self._begun(call))
        if effect.status == Status.FINISHED:
            return json.loads(effect.result)
        is_new = effect.owner == self._claim.owner and name not in self._called
        found = None if is_new else self._decide(call, effect)
        return found[0] if found is not None else self._run(call, effect)

    def transaction(self, name: str, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Run database work once, committed together with its result; see ``TaskContext.transaction``."""
        call = Call("transaction", name, function, args, kwargs)
        is_again = False

        def step() -> Any:
            nonlocal is_again
            if is_again:  # the commit before may have had no answer: the lock is free when it has ended
                self._write(lambda: idempotency.fence(self._claim))
            is_again = True
            return self._transacted(call)

        return self._repeat(step, tries=MAX_TRIES)

    def _begun(self, call: Call) -> Effect:
        """Return the effect on record, begun under this claim unless an earlier run has begun it."""
        with self._committing():
            idempotency.fence(self._claim)
            present = self._find(call)
            if present is None:
                return self._insert(call, Status.STARTED)
            if present.status == Status.NOT_HAPPENED:
                self._called.discard(call.name)
                _update(present, status=Status.STARTED, owner=self._claim.owner, error="", settled_by="")
            return present

    def _decide(self, call: Call, effect: Effect) -> tuple[Any] | None:
        """Say what becomes of an effect that began and did not finish: its result, or None to call again."""
        if call.is_idempotent:
            self._take_over(effect)
            self._log("an effect that was left open is called again", call, why="idempotent")
            return None
        if call.find is None:
            text = effect.error or ENDED
            self._write(lambda: _update(effect, status=Status.UNCERTAIN, error=text))
            raise EffectUncertainError(call.name, text, effect.pk)
        try:
            found = call.find(*call.args, **call.kwargs)
        except Exception as error:  # the answer "I do not know"
            text = self._described(error)
            self._write(lambda: _update(effect, error=text))
            raise EffectUncertainError(call.name, f"looking for it failed: {text}", effect.pk) from error
        self._take_over(effect)
        if found is None:
            self._log("an effect that was left open is called again", call, why="find")
            return None
        result = self._finished(call, effect, found)
        self._log("an effect that was left open had happened", call, why="find")
        return (result,)

    def _run(self, call: Call, effect: Effect) -> Any:
        self._called.add(call.name)
        try:
            result = call()
        except TaskError:  # the function's own word that it did not happen
            self._close(effect, status=Status.NOT_HAPPENED)
            raise
        except BaseException as error:
            raise self._left_open(call, effect, error) from error
        return self._finished(call, effect, result)

    def _finished(self, call: Call, effect: Effect, result: Any) -> Any:
        try:
            text = compact(plain(result))
        except (PayloadError, RecursionError) as error:
            raise self._left_open(call, effect, error) from error
        self._close(effect, status=Status.FINISHED, result=text, error="")
        return json.loads(text)

    def _left_open(self, call: Call, effect: Effect, error: BaseException) -> EffectUncertainError:
        """Leave the effect open: for a person, unless calling or looking again will tell."""
        text = self._described(error)
        heals_itself = call.is_idempotent or call.find is not None
        self._close(effect, status=Status.STARTED if heals_itself else Status.UNCERTAIN, error=text)
        return EffectUncertainError(call.name, text, effect.pk)

    def _take_over(self, effect: Effect) -> None:
        def write() -> None:
            idempotency.fence(self._claim)
            _update(effect, owner=self._claim.owner)

        self._write(write)

    def _close(self, effect: Effect, **changes: Any) -> None:
        """Write what this run knows of its own call, true even if the claim is lost by now."""
        self._write(lambda: _update(effect, only_owner=self._claim.owner, **changes))

    def _write(self, change: Callable[[], object]) -> None:
        def step() -> None:
            with self._committing():
                change()

        self._repeat(step)

    def _transacted(self, call: Call) -> Any:
        """Run the work and, last of all, fence it and keep its result."""
        with self._committing():
            present = self._find(call)
            if present is not None:
                return json.loads(present.result or "null")
            text = compact(plain(call()))
            idempotency.fence(self._claim)
            self._insert(call, Status.FINISHED, text)
        return json.loads(text)

    @contextmanager
    def _committing(self) -> Iterator[None]:
        using = self._claim.using
        if any(not getattr(block, "_from_testcase", False) for block in connections[using].atomic_blocks):
            raise ConfigurationError(
                "ctx.effect and ctx.transaction commit, so they do not work inside an atomic block"
            )
        with dialect_of(using).writing(), transaction.atomic(using):
            yield

    def _find(self, call: Call) -> Effect | None:
        rows = Effect.objects.using(self._claim.using)
        return rows.filter(record_id=self._claim.record.pk, name_hash=call.name_hash).first()

    def _insert(self, call: Call, status: str, result: str | None = None) -> Effect:
        now = timezone.now()
        effect = Effect(
            record_id=self._claim.record.pk,
            name=storable(call.name, 255),
            name_hash=call.name_hash,
            status=status,
            result=result,
            owner=self._claim.owner,
            started_at=now,
            finished_at=None if result is None else now,
        )
        effect.save(using=self._claim.using, force_insert=True)
        return effect

    def _log(self, text: str, call: Call, why: str) -> None:
        logger.info(text, extra=about(self._claim.record, effect=call.name, why=why))

    def _described(self, error: BaseException) -> str:
        return storable(self._redact(f"{type(error).__name__}: {error}"), LIMIT_TEXT)


def _update(effect: Effect, *, only_owner: str | None = None, **changes: Any) -> None:
    """Change an effect that nobody has settled meanwhile."""
    if changes.get("status") == Status.FINISHED:
        changes["finished_at"] = timezone.now()
    rows = Effect.objects.using(effect._state.db or "default").filter(pk=effect.pk).exclude(status=Status.FINISHED)
    if only_owner is not None:
        rows = rows.filter(owner=only_owner)
    if rows.update(**changes):
        for name, value in changes.items():
            setattr(effect, name, value)

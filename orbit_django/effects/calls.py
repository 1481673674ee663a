"""External effects inside a task that is not atomic: begun, called, kept, or left open.

An effect is on record before the outside world is called and again afterwards, each time in a commit of its own.
One that began and never ended is not called again unless that is known to be harmless: a person, or a look at the
outside world, must say what became of it.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any

from orbit_django import idempotency
from orbit_django.effects.pieces import Enclosed, Pieces
from orbit_django.effects.rows import Call, Rows, Status, text_of, update
from orbit_django.exceptions import AbandonedError, EffectUncertainError, TaskError
from orbit_django.logs import SteadyLogger, about
from orbit_django.models import Effect
from orbit_django.payloads import compact, plain, storable, words_of
from orbit_django.verdicts import Claim

logger = SteadyLogger(logging.getLogger(__name__))

LIMIT_TEXT = 4_000
ENDED = "the run that began it ended before its result was kept"


class ClaimedEffects:
    """The effects of one run, under its claim."""

    def __init__(
        self,
        claim: Claim,
        redact: Callable[[str], str],
        repeat: Callable[..., Any],
        enclose: Callable[[str], Enclosed],
    ) -> None:
        self._claim = claim
        self._rows = Rows(claim)
        self._pieces = Pieces(self._rows, repeat, enclose)
        self._redact = redact
        self._repeat = repeat
        self._called: set[str] = set()  # what this run has called already
        self._open: dict[str, EffectUncertainError] = {}  # what this run was told, and has not got over since

    @property
    def uncertain(self) -> EffectUncertainError | None:
        """What keeps the attempt from being a success, whether or not the handler let the error pass."""
        return next(iter(self._open.values()), None)

    def effect(
        self,
        name: str,
        function: Callable[..., Any],
        /,
        *args: Any,
        idempotent: bool = False,
        find: Callable[..., Any] | None = None,
        **kwargs: Any,
    ) -> Any:
        """Call the outside world once; see ``TaskContext.effect``."""
        call = Call("effect", text_of(name), function, args, kwargs, idempotent, find)
        try:
            result = self._once(call)
        except EffectUncertainError as error:
            self._open[name] = error
            raise
        self._open.pop(name, None)
        return result

    def transaction(self, name: str, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Run database work once, committed together with its result; see ``TaskContext.transaction``."""
        return self._pieces.run(Call("transaction", text_of(name), function, args, kwargs))

    def _once(self, call: Call) -> Any:
        """Return the result of a call that is finished by now, whoever has made it."""
        effect = self._repeat(lambda: self._begun(call))
        if effect.status == Status.FINISHED:
            return json.loads(effect.result)
        is_new = effect.owner == self._claim.owner and call.name not in self._called
        found = None if is_new else self._decide(call, effect)
        return found[0] if found is not None else self._run(call, effect)

    def _begun(self, call: Call) -> Effect:
        """Return the effect on record, begun under this claim unless an earlier run has begun it."""
        with self._rows.committing():
            idempotency.fence(self._claim)
            present = self._rows.find(call)
            if present is None:
                return self._rows.insert(call, Status.STARTED)
            if present.status == Status.NOT_HAPPENED:
                self._called.discard(call.name)
                update(present, status=Status.STARTED, owner=self._claim.owner, error="", settled_by="")
            return present

    def _decide(self, call: Call, effect: Effect) -> tuple[Any] | None:
        """Say what becomes of an effect that began and did not finish: its result, or None to call again."""
        if call.is_idempotent:
            self._take_over(effect)
            self._log("an effect that was left open is called again", call, why="idempotent")
            return None
        if call.find is None:
            text = effect.error or ENDED
            self._write(lambda: update(effect, status=Status.UNCERTAIN, error=text))
            raise EffectUncertainError(call.name, text, effect.pk)
        try:
            found = call.look(call.find)
        except AbandonedError:
            raise
        except BaseException as error:  # the answer "I do not know"
            text = self._described(error)
            self._write(lambda: update(effect, error=text))
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
        except AbandonedError:
            raise
        except BaseException as error:  # the result's own code may raise anything, and may even exit
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
            update(effect, owner=self._claim.owner)

        self._write(write)

    def _close(self, effect: Effect, **changes: Any) -> None:
        """Write what this run knows of its own call, true even if the claim is lost by now."""
        self._write(lambda: update(effect, only_owner=self._claim.owner, **changes))

    def _write(self, change: Callable[[], object]) -> None:
        def step() -> None:
            with self._rows.committing():
                change()

        self._repeat(step)

    def _log(self, text: str, call: Call, why: str) -> None:
        logger.info(text, extra=about(self._claim.record, effect=call.name, why=why))

    def _described(self, error: BaseException) -> str:
        return storable(self._redact(f"{type(error).__name__}: {words_of(error)}"), LIMIT_TEXT)

"""Effects as rows of one claim: looked up, begun and changed, in transactions that surely commit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from django.db import connections, transaction
from django.utils import timezone

from orbit_django.dialects import dialect_of, has_begun, is_in_block
from orbit_django.exceptions import NotRepeatableError
from orbit_django.forks import one_process
from orbit_django.models import Effect
from orbit_django.payloads import digest, storable
from orbit_django.verdicts import Claim

Status = Effect.Status
COMMIT = "ctx.effect and ctx.transaction commit"


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
        with one_process():
            return self.function(*self.args, **self.kwargs)

    def look(self, find: Callable[..., Any]) -> Any:
        """Call the function that looks whether it happened."""
        with one_process():
            return find(*self.args, **self.kwargs)


class Rows:
    """The effects of the record that a run has claimed."""

    def __init__(self, claim: Claim) -> None:
        self.claim = claim

    @contextmanager
    def committing(self) -> Iterator[None]:
        """Open a transaction that commits at its end, and what is in it alone."""
        using = self.claim.using
        refuse_inside(using)
        with dialect_of(using).writing(), transaction.atomic(using):
            yield

    def find(self, call: Call) -> Effect | None:
        """Return what is on record of a call."""
        rows = Effect.objects.using(self.claim.using)
        return rows.filter(record_id=self.claim.record.pk, name_hash=call.name_hash).first()

    def insert(self, call: Call, status: str, result: str | None = None) -> Effect:
        """Put a call on record, with its result when it has one."""
        now = timezone.now()
        effect = Effect(
            record_id=self.claim.record.pk,
            name=storable(call.name, 255),
            name_hash=call.name_hash,
            status=status,
            result=result,
            owner=self.claim.owner,
            started_at=now,
            finished_at=None if result is None else now,
        )
        effect.save(using=self.claim.using, force_insert=True)
        return effect


def text_of(name: object) -> str:
    """Return a name that is a text; raise NotRepeatableError for anything else."""
    if not isinstance(name, str):
        raise NotRepeatableError(f"ctx.effect and ctx.transaction take a text as name, not {name!r}")
    return name


def refuse_inside(using: str) -> None:
    """Raise NotRepeatableError where a commit of ours would be none, or would commit what is not ours."""
    connection = connections[using]
    if is_in_block(connection):
        raise NotRepeatableError(f"{COMMIT}, so they do not work inside an atomic block")
    if not connection.in_atomic_block and has_begun(connection):
        raise NotRepeatableError(f"{COMMIT}, so they do not work in a transaction begun by hand or without autocommit")


def update(effect: Effect, *, only_owner: str | None = None, **changes: Any) -> None:
    """Change an effect that nobody has settled meanwhile."""
    if changes.get("status") == Status.FINISHED:
        changes["finished_at"] = timezone.now()
    rows = Effect.objects.using(effect._state.db or "default").filter(pk=effect.pk).exclude(status=Status.FINISHED)
    if only_owner is not None:
        rows = rows.filter(owner=only_owner)
    if rows.update(**changes):
        for name, value in changes.items():
            setattr(effect, name, value)

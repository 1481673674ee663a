"""Sending what is owed without a worker: one pass over everything that no sender holds."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from orbit_django import outbox, starts
from orbit_django.clock import SystemClock
from orbit_django.logs import redacting
from orbit_django.outbox import Origin
from orbit_django.transports.base import Transport
from orbit_django.transports.executions import Executions
from orbit_django.worker.gate import DatabaseGate
from orbit_django.worker.relay import Relay
from orbit_django.worker.starter import Starter

BATCH = 1  # held only while it is being sent


def flush(
    transport: Transport,
    origin: Origin,
    aliases: Iterable[str],
    redact: Callable[[str], str],
    on_tried: Callable[[int], object] = lambda count: None,
) -> tuple[int, int]:
    """Try each sendable message once; return how many were tried and how many are left for this runtime.

    ``on_tried`` is told after each try how many there have been.
    """
    relay = Relay(transport, origin, aliases, clock=SystemClock(), gate=DatabaseGate(), redact=redact, group_seconds=0)
    count = left = 0
    with redacting(redact):
        for using in aliases:
            count += _flush(relay, origin, using, on_tried, count)
            left += outbox.sendable_count(using, origin)
    return count, left


def _flush(relay: Relay, origin: Origin, using: str, on_tried: Callable[[int], object], before: int) -> int:
    tried: set[int] = set()
    while found := outbox.claim_due(using, origin, BATCH, is_flush=True, skip=tried):
        for message in found:
            tried.add(message.pk)
            relay.deliver(message)
            on_tried(before + len(tried))
    return len(tried)


def flush_starts(
    executions: Executions,
    aliases: Iterable[str],
    redact: Callable[[str], str],
    on_tried: Callable[[int], object] = lambda count: None,
) -> tuple[int, int]:
    """Try each pending start of a workflow once; return how many were tried and how many are left."""
    aliases = tuple(aliases)
    starter = Starter(executions, aliases, gate=DatabaseGate(), redact=redact)
    count = 0
    for using in aliases:
        tried: set[int] = set()
        while found := starts.claim_due(using, BATCH, is_flush=True, skip=tried):
            for start in found:
                tried.add(start.pk)
                starter.deliver(start)
                on_tried(count + len(tried))
        count += len(tried)
    return count, sum(starts.pending_count(using) for using in aliases)

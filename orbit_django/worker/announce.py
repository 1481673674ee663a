"""Sends the Django signals of a worker; costs nothing where nobody listens, and lets nothing out of a receiver."""

from __future__ import annotations

import contextvars
import logging
from collections.abc import Callable, Iterable
from typing import Any

from django.db import connections
from django.dispatch import Signal

from orbit_django import signals
from orbit_django.context import TaskContext
from orbit_django.forks import one_process
from orbit_django.logs import SteadyLogger
from orbit_django.models import OutboxMessage
from orbit_django.payloads import words_of
from orbit_django.protocol import Receipt
from orbit_django.worker import housekeeping

logger = SteadyLogger(logging.getLogger(__name__))


def received(context: TaskContext, handler: Callable[..., Any] | None) -> None:
    """Tell that a delivery has arrived."""
    if signals.task_received.receivers:
        _send(signals.task_received, handler, context=context)


def finished(context: TaskContext, handler: Callable[..., Any] | None, outcome: str, code: str) -> None:
    """Tell that an outcome is committed."""
    if signals.task_finished.receivers:
        _send(signals.task_finished, handler, context=context, outcome=outcome, code=code)


def answered(message: OutboxMessage, receipt: Receipt) -> None:
    """Tell of the runtime's answer, once it is filed."""
    if not receipt.accepted:
        refused(message, receipt.reason, is_superseded=receipt.is_benign)
    else:
        delivered([message])


def delivered(messages: Iterable[OutboxMessage]) -> None:
    """Tell that the runtime accepted reports, once that is filed."""
    if signals.result_delivered.receivers:
        for message in messages:
            _send(signals.result_delivered, OutboxMessage, message=message)


def refused(message: OutboxMessage, reason: str, *, is_superseded: bool = False) -> None:
    """Tell of a final refusal, once it is filed."""
    if signals.result_refused.receivers:
        _send(signals.result_refused, OutboxMessage, message=message, reason=reason, is_superseded=is_superseded)


def _send(signal: Signal, sender: Any, **named: Any) -> None:
    """Call the receivers in a scope of their own, and leave no transaction of theirs open."""
    before = _open_aliases()
    try:
        with one_process(), housekeeping.wrapped_as_before():
            answers: list[tuple[Any, Any]] = contextvars.copy_context().run(signal.send_robust, sender, **named)
    except BaseException as error:  # noqa: BLE001  (receivers are the project's code, and may even call sys.exit)
        answers = [(None, error)]
    for receiver, answer in answers:
        if isinstance(answer, BaseException):
            name = words_of(receiver, lambda it: getattr(it, "__qualname__", repr(it)))
            logger.error("a receiver of a signal failed", exc_info=answer, extra={"receiver": name})
    for alias in _open_aliases() - before:
        housekeeping.end_left(alias)


def _open_aliases() -> set[str]:
    return {each.alias for each in connections.all(initialized_only=True) if housekeeping.has_transaction(each)}

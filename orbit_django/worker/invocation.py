"""One call of a handler: its input read, its surroundings clean, its result or its error made reportable."""

from __future__ import annotations

import contextvars
import traceback
from collections.abc import Callable
from typing import Any

from asgiref.sync import async_to_sync, iscoroutinefunction

from orbit_django import payloads, shapes
from orbit_django.context import CancelReason, TaskContext
from orbit_django.contracts import mismatches
from orbit_django.exceptions import (
    AbandonedError,
    EffectUncertainError,
    NotRepeatableError,
    PayloadError,
    PayloadTooLargeError,
    TaskCancelled,
    TaskError,
)
from orbit_django.forks import one_process
from orbit_django.payloads import words_of
from orbit_django.protocol import Assignment, Code, Failure
from orbit_django.tasks import Task

TRACEBACK_LIMIT = 20_000


class HandlerError(Exception):
    """A handler, its input or its result failed; ``__cause__`` is what it raised."""


def cause_of(error: BaseException) -> BaseException:
    """Return what a HandlerError stands for; any other error stands for itself."""
    cause = error.__cause__ if isinstance(error, HandlerError) else None
    return error if cause is None else cause  # an exception of a handler may be anything but true


def invoke(task: Task, assignment: Assignment, context: TaskContext, scope: contextvars.Context) -> Any:
    """Call the handler inside ``scope`` and return what it returned; raise HandlerError for whatever it raised.

    The scope is a copy of the thread's clean context, so that language, time zone and context variables that a
    handler changes end with it. A coroutine runs in an event loop of its own, and its ORM calls in this thread,
    so in this transaction (O181).
    """
    try:
        return scope.run(_call, task, assignment, context)
    except BaseException as error:
        raise HandlerError from error


def encode(task: Task, result: Any, token: str, limit: int) -> str:
    """Return the result as it will be stored and sent; raise HandlerError when it cannot be (O157)."""
    try:
        value = payloads.plain({} if result is None and task.output_type is None else result)
        if not isinstance(value, dict):
            raise PayloadError("$", f"is {_named(result)}; a handler returns a JSON object")
        if task.output_type is not None:
            shapes.read(value, task.output_type)
        if task.promised:
            _keep_promise(task, value, result)
        return payloads.encode_output(value, limit, token)
    except PayloadError as error:
        raise HandlerError from ResultError(error)
    except BaseException as error:  # the result's own code may raise anything, and may even exit
        raise HandlerError from error


def _keep_promise(task: Task, value: dict[str, Any], result: Any) -> None:
    """Raise PayloadError where an output lacks what the contract promises (O091)."""
    wrong = dict(mismatches(value, task.promised))
    for path, text in wrong.items():
        promise = f"the contract of {task.contract.task_name} {task.contract.contract_version} in CONTRACTS"
        forgotten = "; the handler returned None" if result is None else ""
        raise PayloadError(path, f"{text}, by {promise}{forgotten}", wrong)


class ResultError(Exception):
    """A result that is not what was promised; kept apart from a bad input."""

    def __init__(self, error: PayloadError) -> None:
        super().__init__(str(error))
        self.error = error


def failure_of(error: BaseException, context: TaskContext, redact: Callable[[str], str]) -> Failure:
    """Return the failure that reports what a handler raised; raise AbandonedError when nothing is to be reported."""
    if isinstance(error, AbandonedError):
        raise error
    if isinstance(error, TaskCancelled) and context.is_cancelled:
        if context.cancelled.reason == CancelReason.SHUTDOWN:
            raise AbandonedError
        failure = Failure(Code.CANCELLED, words_of(error), retryable=True)
    else:
        failure = next(make for kind, make in MAKERS if isinstance(error, kind))(error)
    return _redacted(failure, redact)


class InputError(Exception):
    """An input that does not have the type that the handler asks for."""

    def __init__(self, error: PayloadError) -> None:
        super().__init__(str(error))
        self.error = error


def _call(task: Task, assignment: Assignment, context: TaskContext) -> Any:
    value = assignment.input
    if task.input_type is not None:
        try:
            value = shapes.read(value, task.input_type)
        except PayloadError as error:
            raise InputError(error) from None
    arguments = (value, context) if task.takes_context else (value,)
    if iscoroutinefunction(task.function):
        return async_to_sync(_awaited)(task.function, *arguments)
    with one_process():
        return task.function(*arguments)


async def _awaited(function: Callable[..., Any], *arguments: Any) -> Any:
    with one_process():
        return await function(*arguments)


def _declared(error: TaskError) -> Failure:
    code = str(error.code or "").strip() or Code.UNHANDLED_EXCEPTION
    return Failure(code, str(error.message), retryable=bool(error.retryable), details=error.details)


def _bad_result(error: ResultError) -> Failure:
    details = {"path": error.error.path, "fields": error.error.fields}
    return Failure(Code.INVALID_RESULT, f"the result: {error}", retryable=False, details=details)


def _bad_input(error: InputError) -> Failure:
    details = {"path": error.error.path, "fields": error.error.fields}
    return Failure(Code.INVALID_INPUT, f"the input: {error}", retryable=False, details=details)


def _too_large(error: PayloadTooLargeError) -> Failure:
    details = {"size": error.size, "limit": error.limit}
    return Failure(Code.RESULT_TOO_LARGE, str(error), retryable=False, details=details)


def _uncertain(error: EffectUncertainError) -> Failure:
    details = {"effect": error.name, "error": error.text}
    return Failure(Code.EFFECT_UNCERTAIN, str(error), retryable=True, details=details)


def _unhandled(error: BaseException) -> Failure:
    shown = words_of(error, lambda it: "".join(traceback.format_exception(it)))
    return Failure(
        Code.UNHANDLED_EXCEPTION,
        words_of(error),
        retryable=not isinstance(error, NotRepeatableError),
        details={"type": type(error).__qualname__, "traceback": shown[-TRACEBACK_LIMIT:]},
    )


def _named(value: Any) -> str:
    return "null" if value is None else f"of type {type(value).__name__}"


def _redacted(failure: Failure, redact: Callable[[str], str]) -> Failure:
    details = _each_text(payloads.lenient(failure.details), redact)  # plain types, so that no text in them escapes
    return Failure(redact(failure.code), redact(failure.message), failure.retryable, details)


def _each_text(value: Any, redact: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, dict):
        return {redact(name): _each_text(item, redact) for name, item in value.items()}
    if isinstance(value, list):
        return [_each_text(item, redact) for item in value]
    return value


MAKERS: tuple[tuple[type[BaseException], Callable[[Any], Failure]], ...] = (
    (TaskError, _declared),
    (ResultError, _bad_result),
    (InputError, _bad_input),
    (PayloadTooLargeError, _too_large),
    (EffectUncertainError, _uncertain),
    (BaseException, _unhandled),
)

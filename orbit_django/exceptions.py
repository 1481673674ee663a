"""Every error that orbit_django raises.

This module imports nothing, so that any room may raise or catch what is defined here.
"""

from __future__ import annotations

from typing import Any


class OrbitError(Exception):
    """Base class of every error of this package; raise one of its subclasses."""


class ConfigurationError(OrbitError):
    """The settings, the handlers or the command line are wrong; the text names which one."""


class MigrationsError(ConfigurationError):
    """The migrations of the project cannot be looked at; ``text`` says why, ``advice`` what to do about it."""

    def __init__(self, text: str, advice: str) -> None:
        super().__init__(f"{text}: {advice}")
        self.text = text
        self.advice = advice


class TaskError(OrbitError):
    """A handler's own failure: the attempt failed for a reason that the workflow may know.

    ``code`` is machine-readable and matched by the step's ``non_retryable`` list, ``retryable`` says whether
    the runtime may try again, ``details`` is any JSON value (protocol clause O100).
    """

    def __init__(self, code: str, message: str = "", *, retryable: bool = True, details: Any = None) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message
        self.retryable = retryable
        self.details = details

    def __str__(self) -> str:
        return f"{self.code}: {self.message}" if self.message else str(self.code)


class TaskCancelled(OrbitError):
    """The runtime, the deadline or a hasty shutdown wants the handler to stop."""


class PayloadError(OrbitError):
    """A value cannot be read as, or written as, the JSON that was promised.

    ``path`` is where, in the form ``$.lines[2].price``; ``fields`` maps paths to texts when there are several.
    """

    def __init__(self, path: str, text: str, fields: dict[str, str] | None = None) -> None:
        super().__init__(f"{path}: {text}")
        self.path = path
        self.text = text
        self.fields = fields or {path: text}


class PayloadTooLargeError(OrbitError):
    """An encoded request body is larger than the runtime takes, or, without a limit, than the database does."""

    def __init__(self, size: int, limit: int | None = None, who: str = "MAX_BODY_BYTES allows") -> None:
        text = f"{who} {limit}"
        if limit is None:
            text = "which the database does not take at once; look at its max_allowed_packet and at MAX_BODY_BYTES"
        super().__init__(f"the request body has {size} bytes, {text}")
        self.size = size
        self.limit = limit


class NotCarriedError(PayloadError):
    """A report holds what this binding cannot carry, and another one may."""


class ClaimLostError(OrbitError):
    """Another owner has taken the key over; what this one does is not recorded any more."""


class NotRepeatableError(ConfigurationError):
    """A handler asked for something that its task does not have, so that no other attempt can fare better."""


class EffectUncertainError(OrbitError):
    """An effect began, and nobody here knows whether it happened."""

    def __init__(self, name: str, text: str, effect_id: int) -> None:
        way = f"say so in the admin, or by manage.py orbit_effects settle {effect_id}"
        super().__init__(f"nobody knows whether the effect {name!r} happened: {text}; {way}")
        self.name = name
        self.text = text


class StartConflictError(OrbitError):
    """An execution id was used again for another workflow or another input; nothing was written."""

    def __init__(self, execution_id: str, what: str) -> None:
        super().__init__(f"the execution {execution_id!r} was asked for before with another {what}; use another id")
        self.execution_id = execution_id
        self.what = what


class CredentialsError(OrbitError):
    """A runtime does not lend a secret to an attempt; the text says for which slot, and why."""


class AbandonedError(BaseException):
    """A handler stopped because the process must end: nothing is reported, the runtime delivers again.

    No ``Exception``, so that neither a handler nor anybody who looks at its objects takes it for one of theirs.
    """


class TransactionEndedError(OrbitError):
    """A handler ended, broke or left the transaction that its effects belong to."""


class TransportError(OrbitError):
    """A call to the runtime did not bring what it was made for."""


class NoAnswerError(TransportError):
    """Nothing final came back: no connection, a time limit, an unreadable answer, or a 5xx.

    ``is_maybe_processed`` is false only when the request surely never reached the runtime.
    """

    def __init__(self, text: str, *, is_maybe_processed: bool = True) -> None:
        super().__init__(text)
        self.is_maybe_processed = is_maybe_processed


class UnknownSessionError(TransportError):
    """The runtime does not know the session (any more); register again (protocol clause O150)."""


class RefusedError(TransportError):
    """A final refusal: a 4xx, a redirect, or any other answer that is not a success.

    ``status`` is the HTTP status, or the one that means the same in another binding, ``code`` the runtime's error
    code or "", ``is_from_runtime`` whether the runtime itself spoke (over HTTP: an error object, or a plain-text 400,
    415, 422 with the version header), ``what`` what the answer was when it had no code.
    """

    def __init__(
        self, status: int, code: str, message: str, *, is_from_runtime: bool, what: str = "without an ORBIT error code"
    ) -> None:
        super().__init__(f"{status} {code or what}: {message}")
        self.status = status
        self.code = code
        self.message = message
        self.is_from_runtime = is_from_runtime


class ContractSyntaxError(ConfigurationError):
    """An `.orbit` file holds something that is not read here; the text begins with file, line and column."""

    def __init__(self, file: str, line: int, column: int, text: str) -> None:
        super().__init__(f"{file}:{line}:{column}: {text}")
        self.file = file
        self.line = line
        self.column = column
        self.text = text


class ExpressionError(OrbitError):
    """An expression of a workflow has no value in this execution."""


class RuntimeRefusalError(OrbitError):
    """The embedded runtime refuses a call: the HTTP status, the error code and the message of its answer (O016)."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(f"{status} {code}: {message}")
        self.status = status
        self.code = code
        self.message = message


class RecordInUseError(OrbitError):
    """A record cannot be forgotten, since somebody needs it."""

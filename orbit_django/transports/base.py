"""The contract of a binding: the six calls of the worker protocol, how they fail, and what single deliveries need.

A binding turns calls into requests and answers into words of the protocol. It decides nothing: no session handling,
and no retries or waits but those that its own protocol prescribes. Every call ends within its time limit. Nothing
above this package knows which binding is in use.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from django.utils.module_loading import import_string

from orbit_django.exceptions import ConfigurationError
from orbit_django.protocol import Assignment, CredentialLease, Kind, Receipt, Registration, Session

NO_CREDENTIALS = "ctx.credentials: the runtime of this worker lends no credentials; only TRANSPORT 'weave' knows them"


class Transport(Protocol):
    """What a worker needs of a binding; safe to use from many threads at once.

    Each call may raise ``NoAnswerError`` (nothing final came back), ``RefusedError`` (a final refusal) and, where
    a session is involved, ``UnknownSessionError``.
    """

    name: str  # what it is called; kept with a report that it cannot carry
    server: str  # the address of the runtime

    def register(self, registration: Registration) -> Session:
        """Open a session (O050)."""
        ...

    def poll(self, session_id: str, wait_ms: int) -> Assignment | None:
        """Wait up to ``wait_ms`` (1 to 60000) for a task; None when there was none (O060 to O062)."""
        ...

    def heartbeat(self, session_id: str, *, timeout_seconds: float) -> tuple[str, ...]:
        """Keep the session alive; return the tokens of attempts to stop (O080)."""
        ...

    def check_report(self, kind: Kind, body: str) -> None:
        """Look at a report before it is committed, without the network; most bindings carry all that JSON says.

        Raises NotCarriedError with the path of the culprit, or PayloadTooLargeError, for one that ``send`` could
        never send. A failure can always be sent.
        """
        ...

    def send(self, kind: Kind, body: str) -> Receipt:
        """Report an attempt with this JSON text (O090, O100); within 10 seconds, and with the same bytes each time.

        A receipt that does not accept is final, with its reason. A refusal of 400 and above that comes from the
        runtime is final as well, but leaves the attempt open: a refused success is then followed by a failure.
        Raises what ``check_report`` raises, too.
        """
        ...

    def unregister(self, session_id: str, *, timeout_seconds: float) -> None:
        """Close a session (O110)."""
        ...

    def close(self) -> None:
        """Let go of every connection."""
        ...


class Deliveries:
    """What a worker owes to each single delivery beside its session: here nothing, as to runtimes that know sessions.

    A binding whose runtime leases deliveries has an attribute ``deliveries`` that says more. Safe from many threads.
    """

    keepers = 1  # how many threads call ``heartbeat``, so that one slow answer holds up no other lease

    def take(self, token: str) -> None:
        """Note that a delivery is held here, and will be reported or dropped."""

    def drop(self, token: str) -> None:
        """Note that a delivery will not be reported from here; it comes again by itself."""

    def stop_polls(self, timeout_seconds: float) -> bool:
        """End the polls that wait; return whether no delivery is on its way that would be lost with the process."""
        return True

    def credentials(self, token: str, slot: str) -> CredentialLease:
        """Return a secret that the runtime lends to this delivery; raise ConfigurationError where it lends none."""
        raise ConfigurationError(NO_CREDENTIALS)


def deliveries_of(transport: Transport) -> Deliveries:
    """Return what a binding says of single deliveries."""
    found = getattr(transport, "deliveries", None)
    return found if isinstance(found, Deliveries) else Deliveries()


def checker_of(transport: Transport) -> Callable[[Kind, str], None] | None:
    """Return what looks at reports before they are committed; None for a binding whose ``carries_all`` is true.

    Such a binding sends whatever JSON says, and nobody has to put a report together only to have it passed.
    """
    return None if getattr(transport, "carries_all", False) else transport.check_report


def find_binding(path: str) -> Callable[..., Any]:
    """Return the callable at a dotted path that TRANSPORT names; raises ConfigurationError."""
    try:
        found = import_string(path)
    except ImportError as error:
        raise ConfigurationError(f"TRANSPORT: {path!r} cannot be imported: {error}") from None
    if not callable(found):
        kind = type(found).__name__
        raise ConfigurationError(f"TRANSPORT: {path!r} is a {kind}; expected a callable that takes the settings")
    return found  # type: ignore[no-any-return]


def check_binding(made: Any, path: str) -> None:
    """Raise ConfigurationError when what a callable made is no binding."""
    wanted = ("server", "name", "register", "poll", "heartbeat", "check_report", "send", "unregister", "close")
    if missing := [name for name in wanted if not hasattr(made, name)]:
        raise ConfigurationError(f"TRANSPORT: what {path!r} returned is no binding; it lacks {', '.join(missing)}")

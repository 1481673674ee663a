"""Refusals of the Weave server: a status, a code and a fixed text; nothing of the request is ever repeated in one."""

from __future__ import annotations

from typing import Any

from orbit_django.exceptions import OrbitError

MESSAGES = {
    "WV-UNAUTHENTICATED": "authentication is required",
    "WV-FORBIDDEN": "the operation is not allowed",
    "WV-NOT-FOUND": "the resource does not exist",
    "WV-LEASE": "the lease does not allow the operation",
    "WV-COMPLETION-CONFLICT": "the completion id was used for another outcome",
    "WV-RELEASE-CONFLICT": "the image digest was admitted with another request",
    "WV-CAPABILITY-CONFLICT": "the capability was published with another contract",
    "WV-LEGACY-UNAVAILABLE": "the stored evidence of the run is not available",
    "WV-OPERATION-UNAVAILABLE": "the project is blocked",
    "WV-REQUEST-LIMIT": "the request is too large",
    "WV-REQUEST-HEADERS": "the request headers cannot be used",
    "WV-REQUEST-ENCODING": "the content encoding is not supported",
    "WV-REQUEST-TIMEOUT": "the request was not read in time",
    "WV-VALIDATION": "the request does not fit its model",
    "WV-CAPABILITY-SCHEMA": "the schema is outside the supported profile",
    "WV-CONNECTION": "the connection cannot be used",
    "WV-IR-UNSUPPORTED": "the run needs a newer server",
    "WV-REQUEST-CAPACITY": "too many requests are being read",
    "WV-OPERATION-CAPACITY": "too many operations are running",
    "WV-RUNTIME-LIMIT": "the run has outgrown its state budget",
    "WV-INTERNAL": "the server failed",
    "WV-COMPATIBILITY": "the server is not ready",
}


class ProblemError(OrbitError):
    """The server refuses a request."""

    def __init__(
        self, status: int, code: str, *, headers: tuple[tuple[str, str], ...] = (), result: Any = None
    ) -> None:
        super().__init__(f"{status} {code}")
        self.status = status
        self.code = code
        self.message = MESSAGES.get(code, "the request was refused")
        self.headers = headers
        self.result = result


def unauthenticated() -> ProblemError:
    """Return the refusal of a request without a usable token."""
    return ProblemError(401, "WV-UNAUTHENTICATED", headers=(("WWW-Authenticate", "Bearer"),))


def forbidden() -> ProblemError:
    """Return the refusal of what the principal may not do."""
    return ProblemError(403, "WV-FORBIDDEN")


def not_found() -> ProblemError:
    """Return the refusal of what does not exist in this scope."""
    return ProblemError(404, "WV-NOT-FOUND")


def no_lease() -> ProblemError:
    """Return the refusal of a lease that is not, or no longer, good for the call."""
    return ProblemError(409, "WV-LEASE")


def invalid() -> ProblemError:
    """Return the refusal of a body that does not fit."""
    return ProblemError(422, "WV-VALIDATION")


def at_capacity(code: str = "WV-OPERATION-CAPACITY", *, retry_after: int | None = 1) -> ProblemError:
    """Return the refusal of a request that nothing was done about; ``retry_after`` is in seconds."""
    headers = () if retry_after is None else (("Retry-After", str(retry_after)),)
    return ProblemError(429, code, headers=headers)

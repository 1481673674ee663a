"""One request on its way through the runtime, whichever side it came in at: credential, faults, endpoint, log."""

from __future__ import annotations

import logging
import time
from dataclasses import replace

from orbit_django.embedded.answers import Answer, Host, Request, error_answer
from orbit_django.embedded.listener import ClosedError
from orbit_django.embedded.recorder import Exchange, without_secrets
from orbit_django.embedded.server import page
from orbit_django.embedded.server.routes import respond
from orbit_django.exceptions import RuntimeRefusalError
from orbit_django.logs import SteadyLogger

logger = SteadyLogger(logging.getLogger(__name__))


def outcome(host: Host, request: Request, certificate_names: frozenset[str] | None) -> Answer | None:
    """Return the answer, or None to close the connection without one; note both in the log of requests."""
    exchange = _recorded(host, request)
    answer = _attempt(host, request, certificate_names)
    if exchange is not None and host.recorder is not None:
        status, body = (None, b"") if answer is None else (answer.status, answer.body)
        host.recorder.end(exchange, status, body)
    return answer


def _recorded(host: Host, request: Request) -> Exchange | None:
    if (recorder := host.recorder) is None:
        return None
    headers = without_secrets(request.headers)
    exchange = Exchange(time.monotonic(), request.method, request.path, request.call, headers, request.body)
    recorder.begin(exchange)
    return exchange


def _attempt(host: Host, request: Request, certificate_names: frozenset[str] | None) -> Answer | None:
    try:
        return _answer(host, request, certificate_names)
    except (ClosedError, OSError):
        return None
    except Exception:  # one request must not end the server; the client sees a 500
        logger.exception("a request of the embedded runtime failed")
        return error_answer(RuntimeRefusalError(500, "INTERNAL", "the runtime failed; see its log"))


def _answer(host: Host, request: Request, certificate_names: frozenset[str] | None) -> Answer:
    try:
        header = request.headers.get("authorization")
        if request.path == "/":
            header = page.authorization(header)
        request.caller = host.credentials.caller(header, certificate_names)
        request.caller.check_path(request.path)
    except RuntimeRefusalError as error:
        return _refusal(error, request)
    if (faults := host.faults) is None:
        return respond(host, request)
    if (early := faults.before(request, host)) is not None:
        return early
    return faults.after(request, respond(host, request), host)


def _refusal(error: RuntimeRefusalError, request: Request) -> Answer:
    if request.path == "/":
        return page.refusal(error.message)
    return replace(error_answer(error), version=None)

"""One HTTP connection of the Weave server: reads requests, has them answered, writes the answers."""

from __future__ import annotations

import logging
import time
import uuid
from contextlib import ExitStack
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import Any, Protocol

from orbit_django.embedded.listener import ClosedError
from orbit_django.embedded.recorder import Exchange, Recorder, without_secrets
from orbit_django.embedded.weave.exchange import WIRE_VERSION, Answer, Request, problem_answer
from orbit_django.embedded.weave.problems import ProblemError
from orbit_django.embedded.weave.server.capacity import Places
from orbit_django.embedded.weave.server.doors import CONTROL_PATH, TOKEN_PATH
from orbit_django.embedded.weave.server.requests import body_length, check_headers, read_body
from orbit_django.embedded.weave.server.routes import call_of
from orbit_django.logs import SteadyLogger

logger = SteadyLogger(logging.getLogger(__name__))
IDLE_SECONDS = 5.0  # between two pieces of a body
_LOOPBACK = ("127.", "::1", "::ffff:127.")


class Owner(Protocol):
    """What a connection needs of the server."""

    recorder: Recorder
    body_places: Places

    @property
    def most_bodies(self) -> int:
        """How many bodies are held at once."""
        ...

    def answer(self, request: Request) -> Answer:
        """Return the answer; raises ProblemError, or ClosedError for none."""
        ...


class Connection(BaseHTTPRequestHandler):
    """Serves one connection until the client closes it."""

    protocol_version = "HTTP/1.1"
    server_version = "weave-embedded"
    sys_version = ""
    disable_nagle_algorithm = True

    def __init__(self, *args: Any, owner: Owner) -> None:
        self.owner = owner
        super().__init__(*args)

    def serve(self) -> None:
        """Answer one request."""
        path = self.path.partition("?")[0]
        call = self._call(path)
        exchange = Exchange(
            time.monotonic(), self.command, path, call, without_secrets(dict(self.headers.items())), None
        )
        if call != "control":
            self.owner.recorder.begin(exchange)
        answer = self._outcome(exchange)
        self.owner.recorder.end(exchange, *((answer.status, answer.body) if answer else ()))
        if answer is None:
            self.close_connection = True
        else:
            self._write(answer, is_wire=call not in {"control", "token"})

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = do_OPTIONS = serve  # noqa: N815 (names of the base class)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (the base class's name)
        """Keep the base class from writing to stderr; credentials are never logged."""
        logger.debug(format, *args)

    def _call(self, path: str) -> str:
        if path.startswith(CONTROL_PATH):
            return "control"
        return "token" if path == TOKEN_PATH else call_of(self.command, path)

    def _outcome(self, exchange: Exchange) -> Answer | None:
        """Return the answer, or None to close the connection without one."""
        try:
            return self._answer(exchange)
        except ProblemError as error:
            return problem_answer(error)
        except (ClosedError, OSError):
            return None
        except Exception:  # one request must not end the server; the client sees a 500
            logger.exception("a request of the Weave server failed")
            return problem_answer(ProblemError(500, "WV-INTERNAL"))

    def _answer(self, exchange: Exchange) -> Answer:
        is_ordinary = self.command == "POST" and exchange.call not in {"control", "token"}
        with ExitStack() as places:
            # A refusal waits until the body has been read: a client that still sends would not see it.
            refusal = self._refusal(places) if is_ordinary else None
            exchange.body = self._body()
            if refusal is not None:
                raise refusal
            check_headers(self.headers)
            if exchange.call == "control" and not self.client_address[0].startswith(_LOOPBACK):
                raise ProblemError(403, "WV-FORBIDDEN")
            request = Request(self.command, exchange.path, self.headers, exchange.body, exchange.call)
            return self.owner.answer(request)

    def _refusal(self, places: ExitStack) -> ProblemError | None:
        try:
            places.enter_context(self.owner.body_places.take(self.owner.most_bodies))
        except ProblemError as error:
            return error
        return None

    def _body(self) -> bytes:
        self.connection.settimeout(IDLE_SECONDS)
        try:
            return read_body(self.rfile, body_length(self.headers))
        except ProblemError as error:
            self.close_connection = error.status != HTTPStatus.REQUEST_ENTITY_TOO_LARGE  # what is left is not read
            raise
        finally:
            self.connection.settimeout(None)

    def _write(self, answer: Answer, *, is_wire: bool) -> None:
        self.close_connection = self.close_connection or answer.is_cut
        headers = [("Content-Type", answer.content_type), ("Content-Length", str(len(answer.body))), *answer.headers]
        names = {name.lower() for name, _ in headers}
        if is_wire:
            headers.append(("X-Weave-Wire-Version", WIRE_VERSION))
        if is_wire and "x-weave-request-id" not in names:
            headers.append(("X-Weave-Request-ID", str(uuid.uuid4())))
        if self.close_connection:
            headers.append(("Connection", "close"))
        lines = [f"HTTP/1.1 {answer.status} {HTTPStatus(answer.status).phrase}", f"Date: {self.date_time_string()}"]
        head = "\r\n".join([*lines, *(f"{name}: {value}" for name, value in headers)]).encode() + b"\r\n\r\n"
        body = answer.body[: len(answer.body) // 2] if answer.is_cut else answer.body
        try:
            self.wfile.write(head if self.command == "HEAD" else head + body)
        except OSError:
            self.close_connection = True  # the client did not wait for its answer

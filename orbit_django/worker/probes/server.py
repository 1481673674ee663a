"""The HTTP side of the probes: one thread for all clients, each with little time, so that none can hold up another."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import NamedTuple

from orbit_django.logs import SteadyLogger
from orbit_django.worker.probes.address import listen
from orbit_django.worker.probes.health import Patient
from orbit_django.worker.probes.metrics import render

logger = SteadyLogger(logging.getLogger(__name__))

REQUEST_SECONDS = 5.0  # from a client's coming to the last byte of its answer
LEAVE_SECONDS = 0.05
MAX_CLIENTS = 64
MAX_HEAD_BYTES = 16_384
NO_METRICS = "metrics need the package prometheus-client: pip install 'orbit_django[metrics]'\n"
TEXT = "text/plain; charset=utf-8"


@contextmanager
def answering(address: tuple[str, int] | None, patient: Patient) -> Iterator[None]:
    """Answer probes there meanwhile, if anywhere; raise ConfigurationError when the address cannot be had."""
    if address is None:
        yield
        return
    server = ProbeServer(listen(*address), patient)
    server.start()
    try:
        yield
    finally:
        server.close()


class Reply(NamedTuple):
    """What a path answers."""

    status: HTTPStatus
    text: str
    kind: str = TEXT


class ProbeServer:
    """Answers ``/livez``, ``/readyz`` and ``/metrics`` on a listening socket, from a daemon thread of its own."""

    def __init__(self, listening: socket.socket, patient: Patient) -> None:
        self._listening = listening
        self._patient = patient
        self._clients: dict[asyncio.StreamWriter, None] = {}  # the oldest first
        self._loop = asyncio.new_event_loop()
        self._end = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="orbit-probes", daemon=True)

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()

    def close(self) -> None:
        """Stop answering and give the address back."""
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join(REQUEST_SECONDS)

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._live())
        finally:
            self._loop.close()

    async def _live(self) -> None:
        """Answer until the end, then let go of the clients that are still there."""
        server = await asyncio.start_server(self._serve, sock=self._listening, limit=MAX_HEAD_BYTES)
        await self._end.wait()
        server.close()
        while others := asyncio.all_tasks() - {asyncio.current_task()}:
            for writer in self._clients:
                writer.transport.abort()
            await asyncio.wait(others, timeout=LEAVE_SECONDS)
        await asyncio.sleep(0)  # what was broken off closes its socket in the next round

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one client, if it is quick; where there are too many, the one that took longest has to go."""
        self._clients[writer] = None
        if len(self._clients) > MAX_CLIENTS:
            oldest = next(iter(self._clients))
            del self._clients[oldest]
            oldest.transport.abort()
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                writer.write(self._answer(await reader.readuntil(b"\r\n\r\n")))
                writer.close()
                await writer.wait_closed()
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            self._clients.pop(writer, None)
            writer.transport.abort()

    def _answer(self, head: bytes) -> bytes:
        """Return the whole answer to a request head."""
        method, _, rest = head.partition(b" ")
        path = rest.split(b" ", 1)[0].split(b"?", 1)[0].decode("latin-1")
        if method not in (b"GET", b"HEAD"):
            reply = Reply(HTTPStatus.METHOD_NOT_ALLOWED, "only GET and HEAD\n")
        else:
            reply = self._look(path)
        body = reply.text.encode()
        lines = (
            f"HTTP/1.1 {reply.status.value} {reply.status.phrase}",
            f"Content-Type: {reply.kind}",
            f"Content-Length: {len(body)}",
            "Cache-Control: no-store",
            *(["Allow: GET, HEAD"] if reply.status == HTTPStatus.METHOD_NOT_ALLOWED else []),
            "Connection: close",
        )
        return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + (b"" if method == b"HEAD" else body)

    def _look(self, path: str) -> Reply:
        paths: dict[str, Callable[[], Reply]] = {
            "/livez": self._liveness,
            "/readyz": self._readiness,
            "/metrics": self._metrics,
        }
        if path not in paths:
            return Reply(HTTPStatus.NOT_FOUND, f"not here; there are {', '.join(paths)}\n")
        try:
            return paths[path]()
        except Exception:  # one answer must not end all others
            logger.exception("a probe could not be answered", extra={"path": path})
            return Reply(HTTPStatus.INTERNAL_SERVER_ERROR, "the log of the worker says why\n")

    def _liveness(self) -> Reply:
        return _told(self._patient.condition().faults)

    def _readiness(self) -> Reply:
        return _told(self._patient.condition().obstacles)

    def _metrics(self) -> Reply:
        try:
            kind, text = render(self._patient.condition())
        except ImportError:
            return Reply(HTTPStatus.NOT_IMPLEMENTED, NO_METRICS)
        return Reply(HTTPStatus.OK, text, kind)


def _told(reasons: list[str]) -> Reply:
    """Return 200, or 503 with the reasons, one on each line."""
    if reasons:
        return Reply(HTTPStatus.SERVICE_UNAVAILABLE, "".join(f"{reason}\n" for reason in reasons))
    return Reply(HTTPStatus.OK, "ok\n")

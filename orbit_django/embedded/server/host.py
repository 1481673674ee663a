"""The embedded runtime for its clients: its addresses, a ticker, and one lock around the state machine."""

from __future__ import annotations

import logging
import ssl
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from orbit_django.clock import Clock
from orbit_django.contracts import Catalog, TaskContract, Workflow, load
from orbit_django.embedded.answers import Interference
from orbit_django.embedded.callers import Credentials, Identity
from orbit_django.embedded.listener import ClosedError
from orbit_django.embedded.recorder import Recorder
from orbit_django.embedded.runtime import Runtime
from orbit_django.embedded.server.doors import Doors
from orbit_django.embedded.server.polls import Waiter, Waiters
from orbit_django.embedded.store import MemoryStore, SqliteStore, Store
from orbit_django.logs import SteadyLogger

MAX_BODY_BYTES = 4 * 1024 * 1024
_LONGEST_SLEEP = 3600.0
_PAUSE_AFTER_FAILURE = 1.0
logger = SteadyLogger(logging.getLogger(__name__))


class EmbeddedRuntime:
    """A runtime in this process, for development and tests.

    ``contracts`` are paths of `.orbit` files, or a Catalog. Without ``db_path`` the history lives as long as this
    object, over ``restart`` too. Usable as a context manager.
    """

    def __init__(  # noqa: PLR0913 (each is one option of the command)
        self,
        contracts: Iterable[str | Path] | Catalog = (),
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        grpc_port: int | None = None,
        token: str | None = None,
        worker_token: str | None = None,
        identities: Sequence[Identity] = (),
        session_timeout_ms: int = 30_000,
        max_body: int = MAX_BODY_BYTES,
        db_path: str | Path | None = None,
        tls: ssl.SSLContext | None = None,
        faults: Interference | None = None,
        recorder: Recorder | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Read the contracts; raises ConfigurationError for what is wrong with them or with the credentials."""
        self.catalog = contracts if isinstance(contracts, Catalog) else load(contracts)
        for file in self.catalog.empty_files:
            logger.warning("%s declares no task and no workflow", file)
        self.credentials = Credentials(token, worker_token, identities)
        self.max_body = max_body
        self.faults = faults
        self.recorder = recorder
        self.lock = threading.RLock()
        self.runtime: Runtime
        self._session_timeout_ms = session_timeout_ms
        self._clock = clock
        self._doors = Doors(host=self, name=host, number=port, grpc_number=grpc_port, tls=tls)
        self._db_path = db_path
        self._memory = MemoryStore()
        self._life = threading.RLock()  # held by whoever starts or ends something; taken before `lock`
        self._ticker: threading.Thread | None = None  # there is one as long as the runtime is there
        self._absence: threading.Event | None = None  # set to end it early
        self._wake = threading.Condition(self.lock)
        self._stopping = threading.Event()

    @property
    def url(self) -> str:
        """Where the runtime listens."""
        return self._doors.url

    @property
    def grpc_target(self) -> str | None:
        """Where its gRPC side listens; None without a ``grpc_port``."""
        return self._doors.grpc_target

    @property
    def is_away(self) -> bool:
        """Say whether connections are refused for a time."""
        return self._absence is not None

    @property
    def session_timeout_ms(self) -> int:
        """The timeout of sessions that are opened from now on; may be set at any time (O055)."""
        return self._session_timeout_ms

    @session_timeout_ms.setter
    def session_timeout_ms(self, value: int) -> None:
        with self.lock:
            self._session_timeout_ms = value
            if self._ticker is not None:
                self.runtime.sessions.timeout_ms = value

    def declare(self, tasks: Iterable[TaskContract] = (), workflows: Iterable[Workflow] = ()) -> None:
        """Add declarations made in Python, also while the runtime runs; raises ContractSyntaxError."""
        with self.lock:
            self.catalog.declare(tasks, workflows)

    def start(self) -> EmbeddedRuntime:
        """Open the history and listen; raises ConfigurationError when the file or the port cannot be had."""
        with self._life:
            self._begin()
            self._doors.open()
        return self

    def stop(self) -> None:
        """Close the port and every connection, as a process that ends would; the history stays."""
        with self._life:
            if self._absence is not None:
                self._absence.set()
                self._absence = None
            self._end()

    def restart(self) -> None:
        """Stop and start again on the same port: sessions are forgotten, tokens and history are kept (O132)."""
        with self._life:
            self.stop()
            self.start()

    def go_away(self, seconds: float | None = None, *, is_restart: bool = False) -> None:
        """Cut every connection and refuse new ones, for a time or until ``come_back``; return at once.

        The runtime goes on behind its closed port; with ``is_restart`` it ends, and begins anew when it is back.
        """
        with self._life:
            if self._absence is not None or self._ticker is None:
                return
            absence = self._absence = threading.Event()
            if is_restart:
                self._end()
            self._doors.close()
            self._doors.hold()
        if seconds is not None:
            args = (absence, seconds)
            threading.Thread(target=self._return, args=args, name="orbit-runtime-absence", daemon=True).start()

    def come_back(self) -> None:
        """End an absence; do nothing when there is none."""
        with self._life:
            if self._absence is None:
                return
            self._absence.set()
            self._absence = None
            if self._ticker is None:
                self._begin()
            self._doors.open()

    def _return(self, absence: threading.Event, seconds: float) -> None:
        absence.wait(seconds)
        with self._life:
            if self._absence is absence:
                self.come_back()

    def _begin(self) -> None:
        # A history that is there comes first, since who else uses it is the better news; a new one is not begun
        # before the port is had. The port answers nobody until it is opened.
        known = self._history() if self._db_path and Path(self._db_path).exists() else None
        try:
            self._doors.hold()
            store = known = known if known is not None else self._history()
            with self.lock:
                timeout_ms = self._session_timeout_ms
                self.runtime = Runtime(self.catalog, store=store, clock=self._clock, session_timeout_ms=timeout_ms)
                self._planned = 0.0
                self._told = 0
                self._waiters = Waiters()
                self._stopping.clear()
        except BaseException:
            if known is not None:
                known.close()
            self._doors.close()
            raise
        self._ticker = threading.Thread(target=self._tick, name="orbit-runtime-ticker", daemon=True)
        self._ticker.start()

    def _end(self) -> None:
        if self._ticker is not None:
            with self.lock:
                self._stopping.set()
                self._waiters.close()
                self._wake.notify_all()
        self._doors.close()
        if self._ticker is not None:
            self._ticker.join()
            self._ticker = None
            with self.lock:
                self.runtime.store.close()

    def _history(self) -> Store:
        return SqliteStore(self._db_path) if self._db_path else self._memory

    def __enter__(self) -> EmbeddedRuntime:
        return self.start()

    def __exit__(self, *exception: object) -> None:
        self.stop()

    @contextmanager
    def changing(self) -> Iterator[Runtime]:
        """Hold the lock for one look at the runtime or one change, then serve those who waited for what it changed.

        Raises ClosedError once the server stops: what came too late must not reach a history that is being closed.
        """
        with self.lock:
            if self._stopping.is_set():
                raise ClosedError
            try:
                yield self.runtime
            finally:
                self._serve()

    def wait(self, look: Callable[[], Any], wait_ms: int, is_gone: Callable[[], bool]) -> Any:
        """Return what ``look`` finds within the time, or None; raises ClosedError when the server stops."""
        waiter = Waiter(look, is_gone)
        with self.lock:
            if self._stopping.is_set():
                raise ClosedError
            if waiter.try_once():
                return self._waiters.settle(waiter)
            self._waiters.add(waiter)
        waiter.wait(wait_ms / 1000)
        with self.lock:
            return self._waiters.settle(waiter)

    def pause(self, seconds: float) -> None:
        """Hold the calling thread; a stop ends the pause."""
        if seconds > 0:
            self._stopping.wait(seconds)

    def _serve(self) -> None:
        if self._told != self.runtime.state.news:  # else nobody's wait can end, and asking everybody takes its time
            self._waiters.serve()
            self._told = self.runtime.state.news
        due = self.runtime.state.timers.next_due()
        if due is not None and due < self._planned:
            self._wake.notify_all()

    def _tick_once(self) -> None:
        try:
            self.runtime.tick()
            self._serve()
        except Exception:  # a full disk must not end the ticker; what could not be stored is kept
            logger.exception("what was due in the embedded runtime failed")
            self._wake.wait(_PAUSE_AFTER_FAILURE)

    def _tick(self) -> None:
        clock = self.runtime.state.clock
        with self.lock:
            while not self._stopping.is_set():
                self._tick_once()
                due = self.runtime.state.timers.next_due()
                now = clock.monotonic()
                self._planned = min(now + _LONGEST_SLEEP, due if due is not None else now + _LONGEST_SLEEP)
                self._wake.wait(max(0.0, self._planned - now))

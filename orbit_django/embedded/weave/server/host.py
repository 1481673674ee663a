"""The Weave server over HTTP: a listener, a recovery loop, and the locks around the state machine."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial, update_wrapper
from pathlib import Path
from typing import Any

from orbit_django.clock import Clock
from orbit_django.embedded.listener import ClosedError
from orbit_django.embedded.port import Port
from orbit_django.embedded.recorder import Recorder
from orbit_django.embedded.store import MemoryStore, SqliteStore
from orbit_django.embedded.weave.exchange import Answer, Interference, Request
from orbit_django.embedded.weave.platform import LEASE_SECONDS, SCOPE, Platform
from orbit_django.embedded.weave.server.capacity import LEVELS, ORDINARY, Limits, Places, ProjectLocks
from orbit_django.embedded.weave.server.clock import MovableClock
from orbit_django.embedded.weave.server.controls import methods_of
from orbit_django.embedded.weave.server.doors import TOKEN_PATH, control_answer, token_answer
from orbit_django.embedded.weave.server.handler import Connection
from orbit_django.embedded.weave.server.routes import respond
from orbit_django.logs import SteadyLogger

logger = SteadyLogger(logging.getLogger(__name__))


class EmbeddedWeave:
    """A Weave server in this process, for development and tests; usable as a context manager.

    Without ``db_path`` its state lives as long as this object, over ``restart`` too. ``recovery_seconds`` None leaves
    recovery to calls of ``recover``. ``limits`` may be set at any time.
    """

    def __init__(  # noqa: PLR0913 (each is one option)
        self,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        db_path: str | Path | None = None,
        lease_seconds: float = LEASE_SECONDS,
        recovery_seconds: float | None = 1.0,
        token_seconds: float = 300.0,
        limits: Limits = ORDINARY,
        faults: Interference | None = None,
        recorder: Recorder | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.faults = faults
        self.limits = limits
        self.recorder = recorder or Recorder()
        self.token_seconds = token_seconds
        self.body_places = Places("WV-REQUEST-CAPACITY")
        self.clock = MovableClock(clock)
        self.provider: Callable[[], None] = lambda: None  # called between the two looks at a credential
        self._platform: Platform
        self._lease_seconds = lease_seconds
        self._recovery_seconds = recovery_seconds
        self._db_path = db_path
        self._memory = MemoryStore()
        self._port = Port(host, port, None, partial(Connection, owner=self))
        self._lock = threading.RLock()
        self._executing = Places("WV-OPERATION-CAPACITY")
        self._projects = ProjectLocks()
        self._stopping = threading.Event()
        self._recovery: threading.Thread | None = None

    @property
    def url(self) -> str:
        """Where the server listens."""
        return self._port.url

    @property
    def token_url(self) -> str:
        """Where clients get their tokens."""
        return self._port.url + TOKEN_PATH

    @property
    def base_url(self) -> str:
        """The address of the scope that is there from the beginning."""
        tenant, project, environment = SCOPE.split("/")
        return f"{self.url}/api/v1/tenants/{tenant}/projects/{project}/environments/{environment}"

    @property
    def most_bodies(self) -> int:
        """How many bodies are held at once."""
        return self.limits.bodies

    def start(self) -> EmbeddedWeave:
        """Open the state and listen; raises ConfigurationError when the file or the port cannot be had."""
        store = SqliteStore(self._db_path) if self._db_path else self._memory
        try:
            self._platform = Platform(store=store, clock=self.clock, lease_seconds=self._lease_seconds)
            self._port.hold()
        except BaseException:
            store.close()
            raise
        self._stopping.clear()
        self._port.open()
        if self._recovery_seconds is not None:
            args = (self._recovery_seconds,)
            self._recovery = threading.Thread(target=self._recover, args=args, name="weave-recovery", daemon=True)
            self._recovery.start()
        return self

    def stop(self) -> None:
        """Close the port and every connection, as a process that ends would; the state stays."""
        self._stopping.set()
        self._port.close()
        if self._recovery is not None:
            self._recovery.join()
            self._recovery = None
        with self._lock:
            self._platform.state.store.close()

    def restart(self) -> None:
        """Stop and start again on the same port."""
        self.stop()
        self.start()

    def __enter__(self) -> EmbeddedWeave:
        return self.start()

    def __exit__(self, *exception: object) -> None:
        self.stop()

    @contextmanager
    def changing(self) -> Iterator[Platform]:
        """Hold the lock around the state machine; raises ClosedError once the server stops."""
        with self._lock:
            if self._stopping.is_set():
                raise ClosedError
            yield self._platform

    def executing(self) -> AbstractContextManager[None]:
        """Take one of the places for requests that execute, or refuse."""
        return self._executing.take(self.limits.executing)

    @contextmanager
    def transaction(self, scope: str) -> Iterator[Platform]:
        """Hold the lock of a project and do the work of a transaction in it."""
        with self._projects.hold(scope.rpartition("/")[0], self.limits.lock_seconds):
            self.pause(self.limits.work_seconds)
            with self.changing() as platform:
                yield platform

    def hold_project(self, seconds: float) -> None:
        """Keep the lock of the project for a time, as another process would; return once it is held."""
        held = threading.Event()

        def hold() -> None:
            with self._projects.hold(SCOPE.rpartition("/")[0], seconds):
                held.set()
                self.pause(seconds)

        threading.Thread(target=hold, name="weave-lock", daemon=True).start()
        held.wait(seconds)

    def ask_provider(self) -> None:
        """Let the secret provider be asked."""
        self.provider()

    def pause(self, seconds: float) -> None:
        """Hold the calling thread; a stop ends the pause."""
        if seconds > 0:
            self._stopping.wait(seconds)

    def advance(self, seconds: float) -> None:
        """Move the server's clock forward."""
        with self._lock:
            self.clock.advance(seconds)

    def recover(self) -> int:
        """Make the decisions of recovery that are due now and return how many there were."""
        with self.changing() as platform:
            return platform.recovery.step()

    def set_limits(self, level: str) -> None:
        """Choose how often requests are refused for capacity: ordinary, rare or frequent; raises KeyError."""
        self.limits = LEVELS[level]

    def call(self, name: str, /, **members: Any) -> Any:
        """Call a control by its name, as a POST to ``/control/NAME`` does."""
        with self.changing() as platform:
            return methods_of(self, platform)[name](**members)

    def answer(self, request: Request) -> Answer:
        """Return the answer to a request; raises ProblemError, or ClosedError for none."""
        if request.call == "control":
            return control_answer(request, self._controls())
        if self.faults and (early := self.faults.before(request, self)) is not None:
            return early
        answer = token_answer(request, self._exchange) if request.call == "token" else respond(self, request)
        return self.faults.after(request, answer, self) if self.faults else answer

    def _controls(self) -> Mapping[str, Callable[..., Any]]:
        with self.changing() as platform:
            names = methods_of(self, platform)
        return {name: update_wrapper(partial(self.call, name), method) for name, method in names.items()}

    def _exchange(self, name: str, secret: str) -> tuple[str, float] | None:
        with self.changing() as platform:
            token = platform.access.exchange(name, secret, self.token_seconds)
        return (token, self.token_seconds) if token else None

    def _recover(self, seconds: float) -> None:
        while not self._stopping.wait(seconds):
            try:
                self.recover()
            except ClosedError:
                return
            except Exception:  # a full disk must not end recovery
                logger.exception("recovery of the Weave server failed")

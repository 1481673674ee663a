"""The laboratory: workers and a runtime under a schedule of faults, and then a check of everything that is left."""

import heapq
import json
import shutil
import signal
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from threading import Event
from typing import Any, Self

from django.db import OperationalError, connection

from orbit_django.embedded.server import EmbeddedRuntime, passage
from orbit_django.models import Effect, IdempotencyRecord, OutboxMessage
from tests.crash.invariants import Evidence, violations
from tests.crash.lab_handlers import FOLDER
from tests.crash.nursery import MORE, Nursery
from tests.crash.proxy import Proxy
from tests.crash.schedule import Schedule, Start, Strike, schedule
from tests.crash.sleeper import Sleeper
from tests.crash.world import TOKEN
from tests.processes import ListeningFaults
from tests.testapp.models import Charge

WORKERS, LOOPS = 2, 4
LIMIT_SECONDS = 40.0  # for a whole schedule; it ends as soon as everything is over
END_SECONDS = 40.0  # for workers that were asked to end
SETTINGS = {"CLAIM_SECONDS": 2, "POLL_WAIT_MS": 400, "MAX_REDELIVERIES": 50}


class Laboratory:
    """Runs schedules on one database, one after the other; usable as a context manager."""

    def __init__(
        self, database: str, environment: dict[str, str], folder: Path, experiment: "type[Experiment] | None" = None
    ) -> None:
        self.folder = folder
        self._experiment = experiment or Experiment
        self._stack = ExitStack()
        self._proxy = Proxy(database) if database != "sqlite" else None
        self._environment = environment | {
            "CRASH_SETTINGS": json.dumps(SETTINGS),
            "DJANGO_SETTINGS_MODULE": "tests.crash.settings",
        }

    def __enter__(self) -> Self:
        if self._proxy is not None:
            self._stack.enter_context(self._proxy)
            self._environment |= self._proxy.environment()
        self._nursery = self._stack.enter_context(Nursery(self._environment))
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def run(self, seed: int) -> tuple[Schedule, list[str]]:
        """Play one schedule; return it and what it violated, in which case its folder is kept."""
        plan = schedule(seed, has_server=self._proxy is not None)
        folder = self.folder / f"seed-{seed}"
        folder.mkdir(parents=True)
        for model in (OutboxMessage, Effect, IdempotencyRecord, Charge):
            model.objects.all().delete()
        with self._experiment(plan, folder, self._nursery, self._proxy) as experiment:
            found = experiment.play()
        (folder / "violations").write_text("\n".join(found), encoding="utf-8")
        if not found:
            shutil.rmtree(folder)
        return experiment.plan, found


class Experiment:
    """One schedule in the making."""

    limit_seconds = LIMIT_SECONDS
    grpc_port: int | None = None
    options: tuple[str, ...] = ()  # of each worker

    def __init__(self, plan: Schedule, folder: Path, nursery: Nursery, proxy: Proxy | None) -> None:
        self.plan, self._folder, self._nursery, self._proxy = plan, folder, nursery, proxy
        self._faults = ListeningFaults()
        self._runtime = EmbeddedRuntime(
            [Path(__file__).with_name("lab.orbit")],
            grpc_port=self.grpc_port,
            worker_token=TOKEN,
            token="admin",
            session_timeout_ms=1_000,
            faults=self._faults,
        )
        self._prepare()

    def _prepare(self) -> None:
        self._evidence = Evidence(self.plan, self._folder)
        self._workers: list[int] = []
        self._named: dict[str, int] = {}  # worker id -> process
        self._count = 0
        self._due: list[tuple[float, int, Callable[[], object]]] = []
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self._stack.enter_context(self._recording())
        self._stack.enter_context(self._runtime)
        self._stack.callback(self._end_workers)
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def _recording(self) -> AbstractContextManager[None]:
        return recording(self._evidence.bodies)

    def play(self) -> list[str]:
        """Let everything happen, wait for the end, and judge."""
        began = time.monotonic()
        for number in range(WORKERS):
            self._workers.append(self._hatch(number))
        for start in self.plan.starts:
            self._at(began + start.at, lambda now=start: self._start(now))
        for strike in self.plan.strikes:
            self._at(began + strike.at, lambda now=strike: getattr(self, f"_{now.kind}")(now))
        while self._due:
            at, _, action = heapq.heappop(self._due)
            Event().wait(max(0.0, at - time.monotonic()))
            action()
        self._calm_down(began + self.limit_seconds)
        return self._judge()

    def _judge(self) -> list[str]:
        return violations(self._evidence, self._runtime)

    def _at(self, at: float, action: Callable[[], object]) -> None:
        self._count += 1
        heapq.heappush(self._due, (at, self._count, action))

    def _calm_down(self, deadline: float) -> None:
        """Wait, undisturbed, until every execution has ended and nothing is owed."""
        if self._proxy is not None:
            self._proxy.lift()
        while time.monotonic() < deadline and not self._is_over():
            Event().wait(0.05)
        for process in self._workers:  # what they still hold they report before they go
            self._nursery.send(process, signal.SIGTERM)
        end = time.monotonic() + END_SECONDS
        while time.monotonic() < end and any(map(self._nursery.is_alive, self._workers)):
            Event().wait(0.05)
        self._evidence.left = sum(map(self._nursery.is_alive, self._workers))

    def _is_over(self) -> bool:
        with self._runtime.lock:
            if any(not one.is_finished for one in self._runtime.runtime.state.executions.values()):
                return False
        return none_pending()

    def _hatch(self, number: int) -> int:
        self._count += 1
        worker_id = f"w{number}-{self._count}"
        arguments = ["--concurrency", str(LOOPS), "--task", "lab.*", "--worker-id", worker_id, *self.options]
        environment = {"ORBIT_SERVER": self._runtime.url, "ORBIT_WORKER_TOKEN": TOKEN, FOLDER: str(self._folder)}
        environment[MORE] = json.dumps({"GRPC_TARGET": self._runtime.grpc_target})
        self._named[worker_id] = self._nursery.hatch(arguments, environment, self._folder / "workers.log")
        return self._named[worker_id]

    def _end_workers(self) -> None:
        for process in self._workers:
            self._nursery.send(process, signal.SIGKILL)

    def _start(self, start: Start) -> None:
        with self._runtime.changing() as runtime:
            runtime.start(start.workflow, {"key": start.key, "pause_ms": start.pause_ms}, start.execution_id)

    def _for_a_while(self, strike: Strike, undo: Callable[[], object]) -> None:
        """Undo a fault later; until then the database is not to be relied on."""
        now = time.monotonic()
        self._evidence.outages.append((now, now + strike.seconds + 0.3))
        self._at(now + strike.seconds, undo)

    def _kill(self, strike: Strike) -> None:
        process = self._workers[strike.worker]
        self._nursery.send(process, signal.SIGKILL)
        self._evidence.deaths[process] = time.monotonic()
        self._workers[strike.worker] = self._hatch(strike.worker)

    def _stop(self, strike: Strike) -> None:
        process, now = self._workers[strike.worker], time.monotonic()
        self._nursery.send(process, signal.SIGSTOP)
        self._evidence.pauses.append((process, now, now + strike.seconds + 0.3))
        self._at(now + strike.seconds, lambda: self._nursery.send(process, signal.SIGCONT))

    def _oversleep(self, strike: Strike) -> None:
        """Let an owner sleep until its key has another one."""
        Sleeper(
            find_key=lambda: self._key_of(self.plan.stale_key),
            processes=self._named,
            send=self._nursery.send,
            at=self._at,
            pauses=self._evidence.pauses,
        ).watch()

    def _key_of(self, key: str) -> str:
        """Return the key under which the ledger knows one of the plan."""
        return key

    def _cut(self, strike: Strike) -> None:
        assert self._proxy is not None
        self._proxy.cut()
        self._evidence.outages.append((time.monotonic(), time.monotonic()))

    def _hang(self, strike: Strike) -> None:
        assert self._proxy is not None
        proxy, is_lost = self._proxy, strike.times == 1
        proxy.hang()
        self._for_a_while(strike, lambda: proxy.release(is_lost=is_lost))

    def _refuse(self, strike: Strike) -> None:
        assert self._proxy is not None
        self._proxy.refuse()
        self._for_a_while(strike, self._proxy.admit)

    def _commit(self, strike: Strike) -> None:
        assert self._proxy is not None
        for _ in range(strike.times):
            self._evidence.commits.append(self._proxy.strike(strike.how))

    def _lock(self, strike: Strike) -> None:
        """Have another program hold the database file's one write lock, unless a paused worker holds it already."""
        holder = sqlite3.connect(connection.settings_dict["NAME"], timeout=0.2, isolation_level=None)
        with suppress(sqlite3.OperationalError):
            holder.execute("BEGIN IMMEDIATE")
        self._for_a_while(strike, holder.close)

    def _lost(self, strike: Strike) -> None:
        self._faults.add("lost", strike.call, times=strike.times)

    def _status(self, strike: Strike) -> None:
        self._faults.add("status", strike.call, value=503 if strike.worker else 500, times=strike.times)

    def _garbage(self, strike: Strike) -> None:
        self._faults.add("garbage", strike.call, times=strike.times)

    def _duplicate(self, strike: Strike) -> None:
        self._faults.add("duplicate", "poll", times=strike.times)

    def _restart(self, strike: Strike) -> None:
        self._runtime.restart()

    def _expire(self, strike: Strike) -> None:
        with self._runtime.changing() as runtime:
            for session in runtime.sessions:
                runtime.sessions.close(session, "expired on purpose")


@contextmanager
def recording(bodies: list[tuple[str, bytes]]) -> Iterator[None]:
    """Keep the exact body of every report that reaches the runtime."""
    respond = passage.respond

    def keep(host: Any, request: Any) -> Any:
        if request.call in ("complete", "fail"):
            bodies.append((request.call, request.body))
        return respond(host, request)

    passage.respond = keep
    try:
        yield
    finally:
        passage.respond = respond


def none_pending() -> bool:
    """Return whether every message was answered; the holds of dead senders end now instead of in 15 s."""
    pending = OutboxMessage.objects.pending()
    with suppress(OperationalError):  # this, too, may be what a deadlock is ended by; the next look does it
        pending.filter(due_at__gt=0).update(due_at=0)
    return not pending.exists()

"""The cases: what is started, where its finished tasks are counted, and what must be true at the end."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks import databases
from benchmarks.control import GRPC_TARGET, ROOT, RuntimeProcess
from benchmarks.databases import Database
from benchmarks.peers import PEERS, Peer
from benchmarks.processes import CaseError

OURS = re.compile(r"ORBIT_(?!BENCH_)|BENCH_|DATABASE_URL")  # what would change how a case behaves
FEED_PER_SECOND = 500  # tasks that another package is given for each second of a measurement


@dataclass(frozen=True)
class Shape:
    """Processes and threads of each."""

    processes: int
    threads: int

    @classmethod
    def read(cls, text: str) -> Shape:
        """Read a text of the form 2x4."""
        processes, threads = text.split("x")
        return cls(int(processes), int(threads))

    def __str__(self) -> str:
        return f"{self.processes}x{self.threads}"


@dataclass(frozen=True)
class Load:
    """What each task is given, and for how long the tasks are counted."""

    seconds: float = 2.5
    payload: int = 100  # bytes of the input
    delay_ms: float = 0.0  # how long the handler waits

    @property
    def input(self) -> dict[str, Any]:
        """The input of a task that does not come from the lean runtime."""
        return {"number": 1, "delay_ms": self.delay_ms, "text": "x" * max(self.payload - 50, 0)}


@dataclass
class Stage:
    """Where a case runs: its own database, and the runtime that all share."""

    runtime: RuntimeProcess
    folder: Path
    database: Database | None
    environment: dict[str, str]
    orders: int = 0  # business rows before the measurement
    fed: int = 0  # tasks that another package was given in this run
    notes: dict[str, Any] = field(default_factory=dict)

    def rows(self) -> int:
        """Return the business rows."""
        return 0 if self.database is None else self.database.count("work_order")


class Case(ABC):
    """One way of doing the work."""

    name: str
    has_database = True

    @property
    def label(self) -> str:
        """The name as part of a database's name."""
        return "".join(letter if letter.isalnum() else "_" for letter in self.name.lower())[:30]

    def environment(self) -> dict[str, str]:
        """Return the environment of its processes, the database left out."""
        kept = {name: value for name, value in os.environ.items() if not OURS.match(name)}
        ours = {"DJANGO_SETTINGS_MODULE": "benchmarks.settings", "PYTHONPATH": str(ROOT)}
        told = {"BENCH_PREFIX": f"orbit-bench-{os.getpid()}", GRPC_TARGET: os.environ.get(GRPC_TARGET, "")}
        return kept | ours | told

    @abstractmethod
    def commands(self, shape: Shape, stage: Stage) -> list[list[str]]:
        """Return one command for each process."""

    def begin(self, stage: Stage, load: Load) -> None:
        """Have the runtime hand out tasks."""
        stage.orders = stage.rows()
        stage.runtime.tell("begin", payload=load.payload, delay_ms=load.delay_ms)

    def done(self, stage: Stage) -> tuple[float, int]:
        """Return a moment and how many tasks were finished by then."""
        state = stage.runtime.state()
        return state["at"], state["completed"]

    def check(self, stage: Stage) -> None:
        """Raise CaseError when what was reported is not what is in the database."""
        state, rows = stage.runtime.state(), stage.rows() - stage.orders
        if state["failed"]:
            raise CaseError(f"{self.name}: {state['failed']} tasks were reported as failed")
        if self.has_database and rows != state["completed"]:
            raise CaseError(f"{self.name}: {state['completed']} successes were reported, but there are {rows} rows")


class ByHand(Case):
    """A worker written by hand."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.has_database = name != "A"

    def commands(self, shape: Shape, stage: Stage) -> list[list[str]]:
        """Return the command of a process, once for each."""
        command = [sys.executable, "-m", "benchmarks.byhand", self.name, stage.runtime.url, str(shape.threads)]
        return [command] * shape.processes


class Product(Case):
    """`manage.py orbit_worker` of a checkout."""

    def __init__(self, checkout: Path, transport: str = "http", name: str = "product") -> None:
        self.name = name
        self.transport = transport
        self._checkout = checkout.resolve()
        if not (self._checkout / "orbit_django").is_dir():
            raise SystemExit(f"{checkout} is no checkout: it has no orbit_django")

    def environment(self) -> dict[str, str]:
        """Have the package come from its checkout and everything else from here."""
        found = super().environment()
        if self._checkout == ROOT:
            return found
        link = databases.scratch() / self.label
        link.mkdir(exist_ok=True)
        if not (link / "orbit_django").exists():
            (link / "orbit_django").symlink_to(self._checkout / "orbit_django")
        return found | {"PYTHONPATH": f"{link}{os.pathsep}{ROOT}"}

    def commands(self, shape: Shape, stage: Stage) -> list[list[str]]:
        """Return one worker for each process."""
        command = [
            *(sys.executable, "-m", "django", "orbit_worker", "--server", stage.runtime.url),
            *("--concurrency", str(shape.threads), "--transport", self.transport),
        ]
        return [command] * shape.processes

    def check(self, stage: Stage) -> None:
        """Demand also that nothing is left in the outbox."""
        super().check(stage)
        assert stage.database is not None
        owed = stage.database.count("orbit_django_outboxmessage", "settled_at IS NULL")
        if owed > stage.notes.get("owed", 0):
            raise CaseError(f"{self.name}: {owed} reports are still owed after an orderly end")


class Other(Case):
    """Another package, which has its tasks from its own store."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.name = peer.name

    def environment(self) -> dict[str, str]:
        """Add the settings of the package."""
        return super().environment() | {"BENCH_SETTINGS": self.peer.settings}

    def commands(self, shape: Shape, stage: Stage) -> list[list[str]]:
        """Return the package's own commands."""
        return [[sys.executable, *command] for command in self.peer.commands(shape.processes, shape.threads)]

    def begin(self, stage: Stage, load: Load) -> None:
        """Give it tasks, unless enough are left."""
        stage.orders = stage.rows()
        wanted = int((load.seconds + 2) * max(FEED_PER_SECOND, 1.5 * stage.notes.get("rate", 0)))
        stage.notes["done_before"] = done = self.done(stage)[1]
        if stage.fed - done < wanted:
            command = [sys.executable, "-m", "benchmarks.peers.feed", self.peer.tasks]
            command += [str(2 * wanted), json.dumps(load.input)]
            subprocess.run(command, env=stage.environment, check=True)
            stage.fed += 2 * wanted

    def done(self, stage: Stage) -> tuple[float, int]:
        """Count the results that are in the database."""
        assert stage.database is not None
        return time.monotonic(), stage.database.count(self.peer.table, self.peer.is_done)

    def check(self, stage: Stage) -> None:
        """Demand a business row for each result."""
        done, rows = self.done(stage)[1] - stage.notes["done_before"], stage.rows() - stage.orders
        if rows < done:
            raise CaseError(f"{self.name}: {done} results, but only {rows} rows")


def own_cases(names: Iterable[str], checkouts: Iterable[Path], transport: str) -> list[Case]:
    """Return the cases by hand that were named, and one product for each checkout."""
    cases: list[Case] = [ByHand(name) for name in ("A", "naive", "floor") if name in names]
    for number, checkout in enumerate(checkouts):
        name = f"product@{checkout.resolve().name}" if number else "product"
        cases.append(Product(checkout, "http" if transport == "grpc" else transport, name))
        if transport == "grpc":  # beside HTTP, in the same rounds
            cases.append(Product(checkout, transport, f"{name}@grpc"))
    return cases


def other_cases(names: Iterable[str], database: str) -> list[Case]:
    """Return the other packages that were named and can be measured; say loudly which cannot."""
    found: list[Case] = []
    for peer in PEERS:
        if peer.name not in names:
            continue
        if trouble := peer.trouble(database):
            print(f"!! GOING ON WITHOUT {peer.name}: {trouble}", file=sys.stderr)
        else:
            found.append(Other(peer))
    return found


def set_up(stack: ExitStack, cases: list[Case], runtime: RuntimeProcess, kind: str) -> dict[str, Stage]:
    """Make the database of each case; leave out loudly a package for which that fails."""
    databases.sweep(kind)
    stages = {}
    for case in list(cases):
        environment, database = case.environment(), None
        try:
            if case.has_database:
                database = stack.enter_context(databases.made(kind, case.label, environment))
                environment["DATABASE_URL"] = database.url
        except subprocess.CalledProcessError as error:
            if not isinstance(case, Other):
                raise
            print(f"!! GOING ON WITHOUT {case.name}: its tables could not be made: {error}", file=sys.stderr)
            cases.remove(case)
            continue
        stages[case.name] = Stage(runtime, databases.scratch(), database, environment)
    return stages

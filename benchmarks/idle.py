"""What a worker without work costs: CPU, and what it says to database and runtime."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Any

from benchmarks import lab, results
from benchmarks.cases import Case, Shape, Stage
from benchmarks.processes import pause
from benchmarks.wire import Proxy

SHAPE = Shape(1, 4)
HEAD = ("case, 1x4", "CPU %", "queries/s", "calls/s", "resident MB")
KEYS = ("cpu", "queries", "calls", "memory")


def arguments(parser: ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--idle", type=float, default=10.0, help="seconds without work (%(default)s)")


def run(options: Namespace) -> None:
    """Measure, show, keep."""
    with lab.opened(options, ["product"]) as room:
        found = {case.name: _one(case, room.stages[case.name], options.idle) for case in room.cases}
        rows = [(name, *(figures[key] for key in KEYS)) for name, figures in found.items()]
        said = "; ".join(f"{name}: {figures['said']}" for name, figures in found.items())
        text = f"{results.table(HEAD, rows)}\n\nWhat is said to the database in that time: {said}"
        lab.close(options, room, "idle", found, f"An idle worker, {options.idle:g} s", text)


def _one(case: Case, stage: Stage, seconds: float) -> dict[str, Any]:
    assert stage.database is not None
    proxy = Proxy(stage.database.url) if stage.database.kind != "sqlite" else None
    stage.runtime.tell("begin", limit=50)
    with lab.worker(case, stage, SHAPE, **({"DATABASE_URL": proxy.url} if proxy else {})) as processes:
        lab.finish(stage.runtime, 50)
        pause(2.0)
        before, calls = processes.cpu_seconds(), sum(stage.runtime.state()["calls"].values())
        if proxy:
            proxy.take()
        pause(seconds)
        cpu = processes.cpu_seconds() - before
        seen = proxy.take().statements if proxy else None
        calls = sum(stage.runtime.state()["calls"].values()) - calls
        memory = processes.memory_mb()
    return {
        "cpu": 100 * cpu / seconds,
        "queries": seen.total() / seconds if seen is not None else None,
        "said": dict(seen) if seen is not None else "not counted",
        "calls": calls / seconds,
        "memory": memory,
    }

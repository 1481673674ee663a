"""What happens after an outage: 1,000 results wait in the outbox, the runtime is away for a while and comes back."""

from __future__ import annotations

import time
from argparse import ArgumentParser, Namespace
from typing import Any

from benchmarks import lab, results
from benchmarks.cases import Case, Shape, Stage
from benchmarks.processes import pause, wait_for

SHAPE = Shape(1, 4)
HEAD = ("case, 1x4", "all loops poll after s", "first result after s", "last result after s", "results/s", "of normal")


def arguments(parser: ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--backlog", type=int, default=1_000, help="results that wait (%(default)s)")
    parser.add_argument("--away", type=float, default=6.0, help="seconds without a runtime (%(default)s)")


def run(options: Namespace) -> None:
    """Measure, show, keep."""
    with lab.opened(options, ["product"]) as room:
        found = lab.in_rounds(options, room, lambda case, stage: _one(case, stage, options))
        rows = [(name, *(_middle(rounds, key) for key in KEYS)) for name, rounds in found.items()]
        title = f"After {options.away:g} s without a runtime, with {options.backlog:,} results waiting"
        lab.close(options, room, "outage", found, title, results.table(HEAD, rows))


KEYS = ("polling", "first", "last", "rate", "ratio")


def _one(case: Case, stage: Stage, options: Namespace) -> dict[str, float]:
    runtime = stage.runtime
    runtime.tell("begin")
    with lab.worker(case, stage, SHAPE):
        lab.finish(runtime, 100)
        began = runtime.state()
        pause(options.seconds)
        ended = runtime.state()
        normal = (ended["completed"] - began["completed"]) / (ended["at"] - began["at"])
        stage.orders = stage.rows()
        runtime.tell("begin", limit=options.backlog, refuse=["report"])
        wait_for(lambda: stage.rows() >= stage.orders + options.backlog, 120, "the backlog is there")
        runtime.tell("refuse", what=[])
        done = runtime.state()["completed"]
        runtime.go_away(options.away)
        back_at = time.monotonic() + options.away
        pause(options.away)
        polling, first, last = _watch(stage, back_at, done, options.backlog)
    rate = (options.backlog - done) / last
    return {"polling": polling, "first": first, "last": last, "rate": rate, "ratio": rate / normal}


def _watch(stage: Stage, back_at: float, done: int, backlog: int) -> tuple[float, float, float]:
    """Return the seconds after the return at which all loops polled, and the first and the last result came."""
    seen: dict[str, float] = {}

    def is_over() -> bool:
        state: dict[str, Any] = stage.runtime.state()
        if state["waiting"] >= SHAPE.threads:
            seen.setdefault("polling", state["at"] - back_at)
        if state["completed"] > done:
            seen.setdefault("first", state["at"] - back_at)
        if state["completed"] >= backlog:
            seen.setdefault("last", state["reported_at"] - back_at)
        return len(seen) == 3

    pause(0.3)  # the runtime listens again
    wait_for(is_over, 120, "every loop polls and every result is delivered")
    return seen["polling"], seen["first"], seen["last"]


def _middle(rounds: list[dict[str, float]], key: str) -> float:
    values = sorted(found[key] for found in rounds)
    return values[len(values) // 2]

"""Latency at low load: from the moment a task is handed out to the moment its report is taken."""

from __future__ import annotations

import statistics
from argparse import ArgumentParser, Namespace

from benchmarks import lab, results
from benchmarks.cases import Case, Shape, Stage

SHAPE = Shape(1, 4)


def arguments(parser: ArgumentParser) -> None:
    """Declare the options."""
    lab.names_option(parser, "A", "naive", "floor", "product")
    parser.add_argument("--pace-ms", type=float, default=25.0, help="between two tasks (%(default)s)")
    parser.add_argument("--tasks", type=int, default=80, help="in each round (%(default)s)")


def run(options: Namespace) -> None:
    """Measure, show, keep."""

    def one(case: Case, stage: Stage) -> list[float]:
        stage.runtime.tell("begin", limit=10)
        with lab.worker(case, stage, SHAPE):
            lab.finish(stage.runtime, 10)
            stage.runtime.tell("begin", limit=options.tasks, pace=options.pace_ms / 1000)
            lab.finish(stage.runtime, options.tasks)
            latencies: list[float] = stage.runtime.tell("latencies")["latencies"]
        return latencies

    with lab.opened(options, options.cases) as room:
        found = lab.in_rounds(options, room, one)
        figures = {name: _figures(rounds) for name, rounds in found.items()}
        naive = figures.get("naive", (None, None))[0]
        rows = [(name, p50, p95, p50 / naive if naive else None) for name, (p50, p95) in figures.items()]
        text = results.table(("case, 1x4", "p50 ms", "p95 ms", "p50 of naive"), rows)
        title = f"Latency, one task every {options.pace_ms:g} ms, {options.rounds} rounds of {options.tasks}"
        lab.close(options, room, "latency", figures, title, text)


def _figures(rounds: list[list[float]]) -> tuple[float, float]:
    """Return the medians over the rounds of p50 and p95, in milliseconds."""
    cuts = [statistics.quantiles(latencies, n=20) for latencies in rounds]
    middle = statistics.median(cut[9] for cut in cuts) * 1000
    return middle, statistics.median(cut[18] for cut in cuts) * 1000

"""How long a worker takes from the command to its first poll, beside `manage.py check` of the same project."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from argparse import ArgumentParser, Namespace

from benchmarks import lab, results
from benchmarks.cases import Case, Shape, Stage
from benchmarks.processes import wait_for

SHAPE = Shape(1, 4)


def arguments(parser: ArgumentParser) -> None:
    """Nothing but what all have in common."""


def run(options: Namespace) -> None:
    """Measure, show, keep."""

    def one(case: Case, stage: Stage) -> tuple[float, float]:
        began = time.monotonic()
        command = [sys.executable, "-m", "django", "check"]
        subprocess.run(command, env=stage.environment, check=True, capture_output=True)
        check_seconds = time.monotonic() - began
        stage.runtime.tell("begin", limit=0)
        with lab.worker(case, stage, SHAPE) as processes:
            wait_for(lambda: bool(stage.runtime.state()["polled_at"]), 30, "the first poll comes")
            return stage.runtime.state()["polled_at"] - processes.started_at, check_seconds

    with lab.opened(options, ["product"]) as room:
        found = lab.in_rounds(options, room, one)
        rows = []
        for name, pairs in found.items():
            ratio = statistics.median(poll / check for poll, check in pairs)
            poll_ms, check_ms = (statistics.median(values) * 1000 for values in zip(*pairs, strict=True))
            rows.append((name, poll_ms, check_ms, ratio))
        text = results.table(("case, 1x4", "first poll ms", "check ms", "ratio"), rows)
        lab.close(options, room, "start", rows, f"Start, {options.rounds} rounds", text)

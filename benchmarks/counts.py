"""What a task costs in counts, which no busy machine disturbs: round trips, statements, commits, calls."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Any

from benchmarks import lab, results
from benchmarks.cases import Case, Shape, Stage
from benchmarks.processes import pause
from benchmarks.wire import Proxy

ENVELOPE = ("BEGIN", "COMMIT", "SET AUTOCOMMIT", "ROLLBACK")
HANDLER = "work_order"
HEAD = ("case", "round trips", "bookkeeping statements", "commits", "HTTP calls")


def arguments(parser: ArgumentParser) -> None:
    """Declare the options."""
    lab.names_option(parser, "naive", "floor", "product")
    parser.add_argument("--tasks", type=int, default=1_000, help="that are counted (%(default)s)")
    parser.add_argument("--shape", default="1x4", help="processes x threads (%(default)s)")


def run(options: Namespace) -> None:
    """Count, show, keep."""
    if options.db == "sqlite":
        raise SystemExit("SQLite has no wire to count on; statements per task are counted in the tests")
    shape = Shape.read(options.shape)
    with lab.opened(options, options.cases) as room:
        found = {case.name: _one(case, room.stages[case.name], shape, options.tasks) for case in room.cases}
        rows = [(name, *(counts[key] for key in KEYS)) for name, counts in found.items()]
        text = results.table(HEAD, rows) + "".join(_listed(name, counts) for name, counts in found.items())
        lab.close(options, room, "counts", found, f"Counts per task, {options.shape}, {options.tasks:,} tasks", text)


KEYS = ("trips", "bookkeeping", "commits", "calls")


def _one(case: Case, stage: Stage, shape: Shape, tasks: int) -> dict[str, Any]:
    """Let a worker come up and rest, then count what a number of tasks makes it say."""
    assert stage.database is not None
    proxy = Proxy(stage.database.url)
    stage.runtime.tell("begin", limit=100)
    with lab.worker(case, stage, shape, DATABASE_URL=proxy.url):
        lab.finish(stage.runtime, 100)
        pause(1.0)
        proxy.take()
        stage.runtime.tell("begin", limit=tasks)
        lab.finish(stage.runtime, tasks)
        pause(0.3)  # what is settled in groups is settled
        said, calls = proxy.take(), stage.runtime.state()["calls"]
    proxy.close()
    return {
        "trips": said.statements.total() / tasks,
        "bookkeeping": sum(count for text, count in said.statements.items() if _is_bookkeeping(text)) / tasks,
        "commits": said.commits / tasks,
        "calls": sum(calls.values()) / tasks,
        "statements": {text: count / tasks for text, count in said.statements.most_common()},
    }


def _is_bookkeeping(text: str) -> bool:
    return HANDLER not in text and not text.removeprefix("BEGIN; ").startswith(ENVELOPE)


def _listed(name: str, counts: dict[str, Any]) -> str:
    rows = [(text, count) for text, count in counts["statements"].items() if count >= 0.005]
    return f"\n\n{results.table((f'{name}: what is said', 'times per task'), rows)}"

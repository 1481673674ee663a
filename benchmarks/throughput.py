"""The main table: every case in every shape, interleaved, with ratios from the same rounds."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks import results
from benchmarks.cases import Case, Load, Other, Shape, other_cases, own_cases, set_up
from benchmarks.control import ROOT, ceiling, running
from benchmarks.measure import Sample, middle, ratio, rounds
from benchmarks.peers import PEERS
from benchmarks.peers.redis_url import sweep

HEAD = ("case", "shape", "tasks/s", "from", "to", "of A", "of floor", "of best other", "CPU ms", "DB CPU ms", "commits")
CPU = ("cpu_ms", "database_cpu_ms")
OWN = ("A", "naive", "floor", "product")
Samples = dict[tuple[str, str], list[Sample]]


def arguments(parser: ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--shapes", nargs="+", default=["1x1", "1x4", "2x2"], help="processes x threads")
    parser.add_argument("--cases", nargs="+", default=[*OWN, *(peer.name for peer in PEERS)], help="what is measured")
    parser.add_argument("--payload", type=int, default=100, help="bytes of a task's input")
    parser.add_argument("--delay-ms", type=float, default=0.0, help="how long the handler waits")
    parser.add_argument("--all-shapes", action="store_true", help="measure other packages with one thread, too")


def run(options: Namespace) -> None:
    """Measure, show, keep."""
    shapes = [Shape.read(text) for text in options.shapes]
    load = Load(options.seconds, options.payload, options.delay_ms)
    checkouts = [Path(path) for path in options.checkout or [ROOT]] if "product" in options.cases else []
    with ExitStack() as stack:
        runtime = stack.enter_context(running(options.transport))
        top = ceiling(runtime)
        print(f"the lean runtime hands out up to {top:,.0f} tasks/s")
        others = other_cases(options.cases, options.db)
        cases = [*own_cases(options.cases, checkouts, options.transport), *others]
        if any(case.name in ("celery", "dramatiq") for case in cases):
            stack.callback(sweep)
        about = results.surroundings(options.db, [case.peer.version() for case in others if isinstance(case, Other)])
        stages = set_up(stack, cases, runtime, options.db)
        samples = rounds(cases, stages, shapes, load, count=options.rounds, without=_left_out(options, cases))
    data = {
        "ceiling": top,
        "load": {"seconds": load.seconds, "payload": load.payload, "delay_ms": load.delay_ms},
        "rounds": options.rounds,
        "samples": [{"case": case, "shape": shape, "samples": found} for (case, shape), found in samples.items()],
    }
    path = results.keep(f"throughput-{options.db}", about, data)
    title = f"Throughput on {options.db}, {options.rounds} rounds of {load.seconds:g} s, medians"
    results.show(title, about, text_of(data))
    print(f"kept in {path.relative_to(ROOT)}")


def text_of(data: dict[str, Any]) -> str:
    """Return the table and what it means."""
    samples: Samples = {(item["case"], item["shape"]): item["samples"] for item in data["samples"]}
    order = sorted(samples, key=lambda key: [shape for _, shape in samples].index(key[1]))
    rows = [_row(samples, case, shape) for case, shape in order]
    return (
        results.table(HEAD, rows)
        + _compared(samples)
        + f"\n\nThe lean runtime alone: up to {data['ceiling']:,.0f} tasks/s. Ratios compare the same round. CPU ms is"
        " of the worker's processes for each task, DB CPU ms of the database's."
    )


def _compared(samples: Samples) -> str:
    """Return what a second checkout makes of each figure of the first, when there is one."""
    rows = []
    for case, shape in samples:
        if case.startswith("product@") and (first := samples.get(("product", shape))):
            other = samples[case, shape]
            rows.append(
                (f"{case} of product", shape, ratio(other, first), *(_quotient(other, first, key) for key in CPU))
            )
    return "\n\n" + results.table(("checkout", "shape", "tasks/s", "CPU ms", "DB CPU ms"), rows) if rows else ""


def _quotient(own: list[Sample], other: list[Sample], name: str) -> float | None:
    one, two = middle(own, name), middle(other, name)
    return one / two if one and two else None


def best_other(samples: Samples, shape: str) -> str:
    """Return the fastest of the other packages in a shape; an empty text without any."""
    names = {peer.name for peer in PEERS}
    found = {case: middle(samples[case, shape_], "rate") or 0.0 for case, shape_ in samples if shape_ == shape}
    return max((case for case in found if case in names), key=lambda case: found[case], default="")


def _row(samples: Samples, case: str, shape: str) -> list[results.Cell]:
    own = samples[case, shape]
    rates = [sample["rate"] for sample in own]
    best = best_other(samples, shape)
    compared = [ratio(own, samples[name, shape]) if (name, shape) in samples else None for name in ("A", "floor", best)]
    figures = [middle(own, name) for name in (*CPU, "commits")]
    return [case, shape, middle(own, "rate"), min(rates), max(rates), *compared, *figures]


def _left_out(options: Namespace, cases: list[Case]) -> list[tuple[str, str]]:
    """Leave out what no target speaks of: other packages with a single thread."""
    if options.all_shapes or len(options.shapes) == 1:
        return []
    return [(case.name, "1x1") for case in cases if isinstance(case, Other)]

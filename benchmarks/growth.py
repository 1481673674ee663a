"""How throughput changes with settled rows, threads, processes, payload, or the time that the handler takes."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks import lab, results
from benchmarks.cases import Case, Load, Product, Shape, set_up
from benchmarks.control import ROOT, ceiling, running
from benchmarks.measure import middle, rounds
from benchmarks.rows import fill

POINTS: dict[str, tuple[int, ...]] = {
    "rows": (1_000, 10_000, 100_000, 1_000_000),
    "threads": (1, 2, 4, 8, 16),
    "processes": (1, 2, 3, 4),
    "payload": (100, 1_000, 10_000, 100_000, 1_000_000),
    "handler": (0, 10, 100),
}
UNITS = {"rows": "settled rows", "payload": "bytes of input", "handler": "ms of handler"}


def arguments(parser: ArgumentParser) -> None:
    """Declare the options."""
    lab.names_option(parser, "A", "floor", "product")
    parser.add_argument("--by", choices=POINTS, default="threads", help="what grows (%(default)s)")
    parser.add_argument("--points", nargs="+", type=int, help="other values than the usual ones")


def run(options: Namespace) -> None:
    """Measure at each point, show, keep."""
    points = tuple(options.points or POINTS[options.by])
    if options.by == "rows":
        _by_rows(options, points)
        return
    names = [name for name in options.cases if options.by != "handler" or name != "A"]  # A has no handler
    with lab.opened(options, names) as room:
        values: dict[str, list[float | None]] = {case.name: [] for case in room.cases}
        for point in points:
            shape, load = _at(options, point)
            samples = rounds(room.cases, room.stages, [shape], load, count=options.rounds)
            for name, rates in values.items():
                rates.append(middle(samples[name, str(shape)], "rate"))
        _close(options, room, points, values)


def _by_rows(options: Namespace, points: Iterable[int]) -> None:
    """Measure the product beside different numbers of settled rows, each in a database of its own."""
    points = tuple(points)
    checkout = Path(options.checkout[0]) if options.checkout else ROOT
    cases: list[Case] = [Product(checkout, options.transport, f"rows{point}") for point in points]
    with ExitStack() as stack:
        runtime = stack.enter_context(running(options.transport))
        top = ceiling(runtime)
        about = results.surroundings(options.db)
        room = lab.Lab(runtime, cases, set_up(stack, cases, runtime, options.db), about, top)
        for case, point in zip(cases, points, strict=True):
            fill(case, room.stages[case.name], point)
        shape = Shape(1, 4)
        samples = rounds(cases, room.stages, [shape], Load(options.seconds), count=options.rounds)
        rates = [middle(samples[case.name, str(shape)], "rate") for case in cases]
        _close(options, room, points, {"product": rates})


def _at(options: Namespace, point: int) -> tuple[Shape, Load]:
    load = Load(options.seconds)
    if options.by == "threads":
        return Shape(1, point), load
    if options.by == "processes":
        return Shape(point, 4), load
    if options.by == "payload":
        return Shape(1, 4), replace(load, payload=point)
    return Shape(1, 4), replace(load, delay_ms=point)


def _close(options: Namespace, room: lab.Lab, points: Iterable[int], values: dict[str, list[Any]]) -> None:
    points = tuple(points)
    unit = UNITS.get(options.by, options.by)
    head = (unit, *(f"{name} tasks/s" for name in values))
    rows = [(f"{point:,}", *(rates[index] for rates in values.values())) for index, point in enumerate(points)]
    data = {"by": options.by, "unit": unit, "points": points, "rates": values}
    shape = {"threads": "1xN", "processes": "Nx4"}.get(options.by, "1x4")
    title = f"Throughput by {unit}, {shape}, {options.rounds} rounds of {options.seconds:g} s, medians"
    lab.close(options, room, f"growth-{options.by}", data, title, results.table(head, rows))

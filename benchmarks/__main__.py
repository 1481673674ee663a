"""`make bench`: the main table; with a name in ARGS another measurement, `ARGS=--help` lists them."""

from __future__ import annotations

import argparse
import os
from importlib import import_module

import django

from benchmarks.databases import KINDS

MEASUREMENTS = {
    "throughput": "the main table: tasks per second of every case",
    "growth": "the same by settled rows, threads, processes, payload or time of the handler",
    "latency": "from a task's dispatch to its accepted result, at low load",
    "counts": "round trips, statements, commits and calls for each task",
    "idle": "what a worker without work costs",
    "memory": "resident memory over many tasks",
    "start": "from the command to the first poll",
    "outage": "after the runtime was away",
    "due": "finding the next due message beside a million delivered ones",
    "profile": "CPU by layer, by py-spy",
    "publish": "write the newest results into docs/performance.md",
}


def main() -> None:
    """Run the measurement that was named."""
    os.environ["DJANGO_SETTINGS_MODULE"] = "benchmarks.settings"
    django.setup()  # the harness asks databases, too
    parser = argparse.ArgumentParser(prog="make bench", description="Measure the worker; ratios count.")
    parser.set_defaults(name="throughput")
    names = parser.add_subparsers(metavar="MEASUREMENT")
    for name, text in MEASUREMENTS.items():
        one = names.add_parser(name, help=text, description=text)
        _common(one)
        import_module(f"benchmarks.{name}").arguments(one)
        one.set_defaults(name=name)
    options = parser.parse_args()
    if options.name == "throughput" and not hasattr(options, "rounds"):
        options = parser.parse_args(["throughput"])
    import_module(f"benchmarks.{options.name}").run(options)


def _common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--db", choices=KINDS, default="postgres", help="database (%(default)s)")
    parser.add_argument("--transport", default="http", help="binding of the worker protocol (%(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="(%(default)s)")
    parser.add_argument("--seconds", type=float, default=2.5, help="of counting for each case (%(default)s)")
    parser.add_argument(
        "--checkout", action="append", help="folder whose orbit_django is measured; give it again to compare two"
    )


if __name__ == "__main__":
    main()

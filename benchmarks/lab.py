"""What the smaller measurements share: a few cases with their databases, and one worker that runs for a while."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import results
from benchmarks.cases import Case, Shape, Stage, own_cases, set_up
from benchmarks.control import ROOT, RuntimeProcess, ceiling, running
from benchmarks.processes import CaseError, Processes, wait_for


@dataclass
class Lab:
    """A runtime, some cases and their databases."""

    runtime: RuntimeProcess
    cases: list[Case]
    stages: dict[str, Stage]
    about: dict[str, Any]
    ceiling: float


@contextmanager
def opened(options: Namespace, names: Iterable[str]) -> Iterator[Lab]:
    """Set up the cases that were named, with one product for each checkout."""
    names = tuple(names)
    checkouts = [Path(path) for path in options.checkout or [ROOT]] if "product" in names else []
    with ExitStack() as stack:
        runtime = stack.enter_context(running(options.transport))
        top = ceiling(runtime)
        print(f"the lean runtime hands out up to {top:,.0f} tasks/s")
        cases = own_cases(names, checkouts, options.transport)
        about = results.surroundings(options.db)
        yield Lab(runtime, cases, set_up(stack, cases, runtime, options.db), about, top)


@contextmanager
def worker(case: Case, stage: Stage, shape: Shape, **environment: str) -> Iterator[Processes]:
    """Run the processes of a case; say what they logged when something goes wrong."""
    processes = Processes(case.commands(shape, stage), stage.environment | environment, stage.folder)
    try:
        yield processes
        processes.check()
    except CaseError as error:
        raise CaseError(f"{case.name} {shape}: {error}\n{processes.tail()}") from None
    finally:
        processes.end()


def finish(runtime: RuntimeProcess, count: int, seconds: float = 60.0) -> None:
    """Wait until so many tasks were completed."""
    wait_for(lambda: bool(runtime.state()["completed"] >= count), seconds, f"{count} tasks are completed")


def names_option(parser: ArgumentParser, *names: str) -> None:
    """Declare which cases are measured."""
    parser.add_argument("--cases", nargs="+", default=list(names), help="what is measured")


def in_rounds(options: Namespace, lab: Lab, one: Callable[[Case, Stage], Any]) -> dict[str, list[Any]]:
    """Measure every case once in every round; return what was found by case."""
    found: dict[str, list[Any]] = {case.name: [] for case in lab.cases}
    for number in range(1, options.rounds + 1):
        for case in lab.cases:
            found[case.name].append(one(case, lab.stages[case.name]))
            print(f"  round {number}  {case.name}", flush=True)
    return found


def close(options: Namespace, lab: Lab, what: str, data: Any, title: str, body: str) -> None:
    """Show a result and keep it with its table."""
    path = results.keep(f"{what}-{options.db}", lab.about, {"title": title, "text": body, "values": data})
    results.show(title, lab.about, body)
    print(f"kept in {path.relative_to(ROOT)}")

"""One measurement of one case, and many of them, interleaved round by round."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Iterable, Sequence
from subprocess import CalledProcessError
from typing import Any

from django.db import DatabaseError

from benchmarks.cases import Case, Load, Other, Shape, Stage
from benchmarks.processes import CaseError, Processes, pause, wait_for

WARM_TASKS = 25  # for each process, before the clock starts
START_SECONDS = 30.0
SAMPLE_SECONDS = 0.1

Sample = dict[str, Any]


def once(case: Case, stage: Stage, shape: Shape, load: Load) -> Sample:
    """Start a case, let it come up to speed, count for a while, end it, and check its rows."""
    case.begin(stage, load)
    commits = stage.database.commits() if stage.database else None
    first = case.done(stage)[1]
    processes = Processes(case.commands(shape, stage), stage.environment, stage.folder)
    try:
        _come_up(case, stage, shape, processes, first)
        sample = _window(case, stage, load, processes)
        processes.check()
    except CaseError as error:
        raise CaseError(f"{case.name} {shape}: {error}\n{processes.tail()}") from None
    finally:
        processes.end()
    case.check(stage)
    if commits is not None and stage.database:
        count = case.done(stage)[1] - first
        sample["commits"] = ((stage.database.commits() or 0) - commits) / count
    return sample


def _come_up(case: Case, stage: Stage, shape: Shape, processes: Processes, first: int) -> None:
    wanted = first + WARM_TASKS * shape.processes

    def is_warm() -> bool:
        processes.check()
        all_there = isinstance(case, Other) or stage.runtime.state()["sessions"] >= shape.processes
        return all_there and case.done(stage)[1] >= wanted

    wait_for(is_warm, START_SECONDS, f"{case.name} {shape} comes up to speed")
    pause(0.2)


def _window(case: Case, stage: Stage, load: Load, processes: Processes) -> Sample:
    """Count tasks and CPU between two moments; a package that runs out of tasks is counted until then."""
    database = stage.database
    cpu, database_cpu = processes.cpu_seconds(), database.cpu_seconds() if database else None
    moments = [case.done(stage)]
    end = time.monotonic() + load.seconds
    while (left := end - time.monotonic()) > 0:
        pause(min(left, SAMPLE_SECONDS if isinstance(case, Other) else left))
        moments.append(case.done(stage))
    cpu = processes.cpu_seconds() - cpu
    began, first = moments[0]
    ended, last = next(moment for moment in moments if moment[1] == moments[-1][1])
    if last == first:
        raise CaseError("nothing was finished while it was counted")
    count = last - first
    sample = {"rate": count / (ended - began), "count": count, "cpu_ms": cpu * 1000 / count}
    if database is not None and database_cpu is not None:
        sample["database_cpu_ms"] = ((database.cpu_seconds() or 0.0) - database_cpu) * 1000 / count
    stage.notes["rate"] = max(sample["rate"], stage.notes.get("rate", 0.0))
    return sample


def rounds(
    cases: Sequence[Case],
    stages: dict[str, Stage],
    shapes: Iterable[Shape],
    load: Load,
    *,
    count: int,
    without: Iterable[tuple[str, str]] = (),
) -> dict[tuple[str, str], list[Sample]]:
    """Measure each case in each shape, so many rounds; ``without`` names pairs of case and shape to leave out."""
    samples: dict[tuple[str, str], list[Sample]] = {}
    broken: set[str] = set()
    skipped = set(without)
    for number in range(1, count + 1):
        for shape in shapes:
            for case in cases:
                key = (case.name, str(shape))
                if key in skipped or case.name in broken:
                    continue
                try:
                    sample = once(case, stages[case.name], shape, load)
                except (CaseError, CalledProcessError, DatabaseError) as error:
                    if not isinstance(case, Other):
                        raise
                    print(f"!! GOING ON WITHOUT {case.name}: {error}", file=sys.stderr)
                    broken.add(case.name)
                    continue
                samples.setdefault(key, []).append(sample)
                print(f"  round {number}  {case.name:<18} {shape}  {sample['rate']:>8,.0f} tasks/s", file=sys.stderr)
    return samples


def middle(samples: Iterable[Sample], name: str) -> float | None:
    """Return the median of one figure; None when it was not taken."""
    found = [sample[name] for sample in samples if sample.get(name) is not None]
    return statistics.median(found) if found else None


def ratio(samples: Sequence[Sample], others: Sequence[Sample]) -> float | None:
    """Return the median, over the rounds, of how much faster a case was than another in the same round."""
    pairs = [one["rate"] / other["rate"] for one, other in zip(samples, others, strict=False)]
    return statistics.median(pairs) if pairs else None

"""Memory of one worker process, from its first task to its last."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from benchmarks import lab, results
from benchmarks.cases import Shape
from benchmarks.processes import wait_for

SHAPE = Shape(1, 4)
LOOKS = 10
STALL_SECONDS = 300.0


def arguments(parser: ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--tasks", type=int, default=100_000, help="(%(default)s)")


def run(options: Namespace) -> None:
    """Run one worker over many tasks and look at its resident memory now and then."""
    with lab.opened(options, ["product"]) as room:
        seen = []
        for case in room.cases:
            room.runtime.tell("begin", limit=options.tasks)
            with lab.worker(case, room.stages[case.name], SHAPE) as processes:
                for look in range(LOOKS + 1):
                    wanted = max(options.tasks * look // LOOKS, 10)

                    def is_there(wanted: int = wanted) -> bool:
                        processes.check()
                        return bool(room.runtime.state()["completed"] >= wanted)

                    wait_for(is_there, STALL_SECONDS, f"{wanted} tasks are completed")
                    seen.append((case.name, float(wanted), processes.memory_mb()))
                    print(f"  {case.name}  {wanted:>9,} tasks  {seen[-1][2]:.1f} MB", flush=True)
        text = results.table(("case, 1x4", "tasks", "resident MB"), seen)
        lab.close(options, room, "memory", seen, f"Memory over {options.tasks:,} tasks", text)

"""`python -m tests.crash --db postgres --schedules 100 --seed 1`: the figure, and the seeds that failed.

Without `--db` every database that answers is tried, one after the other. Exits with 1 on any violation.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

from tests import databases


def options() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.crash", description="Run schedules of faults.")
    parser.add_argument("--db", choices=databases.NAMES, help="the database; without it, every one that answers")
    parser.add_argument(
        "--transport", choices=("http", "grpc", "weave"), default="http", help="binding of the workers (http)"
    )
    parser.add_argument("--schedules", type=int, default=100, help="how many, from the seed on (100)")
    parser.add_argument("--seed", type=int, default=1, help="the first seed (1)")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no further schedule after that long")
    parser.add_argument("--first", action="store_true", help="end at the first violation")
    return parser.parse_args()


def run_on_all(arguments: list[str]) -> int:
    """Run every database in a process of its own; return the worst exit code."""
    warnings.simplefilter("ignore", RuntimeWarning)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
    codes = []
    for name in databases.NAMES:
        if trouble := databases.trouble(name):
            print(f"{name}: left out, {trouble}", flush=True)
            continue
        environment = {key: value for key, value in os.environ.items() if key != "ORBIT_TEST_RUN"}
        command = [sys.executable, "-m", "tests.crash", "--db", name, *arguments]
        codes.append(subprocess.run(command, env=environment, check=False).returncode)
    return max(codes, default=1)


def run_on(asked: argparse.Namespace) -> int:
    """Run schedules on one database and print the figure."""
    os.environ |= {"ORBIT_TEST_DB": asked.db, "DJANGO_SETTINGS_MODULE": "tests.settings"}
    import django

    django.setup()
    from django.db import connection
    from django.test.utils import setup_databases, teardown_databases

    made = setup_databases(verbosity=0, interactive=False)
    try:
        python_path = os.pathsep.join(filter(None, [str(databases.ROOT), os.environ.get("PYTHONPATH")]))
        name = str(connection.settings_dict["NAME"])
        environment = os.environ | {"ORBIT_TEST_DATABASE_DEFAULT": name, "PYTHONPATH": python_path}
        return experiment(asked, environment)
    finally:
        teardown_databases(made, verbosity=0)


def experiment(asked: argparse.Namespace, environment: dict[str, str]) -> int:
    """Run the schedules one after the other; return the exit code."""
    from tests.crash.grpc_lab import GrpcExperiment
    from tests.crash.lab import Experiment, Laboratory
    from tests.crash.weave_lab import WeaveExperiment

    began = time.monotonic()
    counted = {"schedules": 0, "faults": 0, "tasks": 0, "violations": 0}
    folder = Path(tempfile.mkdtemp(prefix="orbit-crash-"))
    kind = {"http": Experiment, "grpc": GrpcExperiment, "weave": WeaveExperiment}[asked.transport]
    with Laboratory(asked.db, environment, folder, kind) as laboratory:
        for seed in range(asked.seed, asked.seed + asked.schedules):
            plan, found = laboratory.run(seed)
            more = {"schedules": 1, "faults": len(plan.strikes), "tasks": len(plan.starts), "violations": len(found)}
            counted = {name: counted[name] + number for name, number in more.items()}
            if found:
                print(f"seed {seed} on {asked.db}, kept in {laboratory.folder / f'seed-{seed}'}:", flush=True)
                print(*(f"  {text}" for text in found), sep="\n", flush=True)
            if time.monotonic() - began > asked.seconds or (found and asked.first):
                break
    figures = ", ".join(f"{number} {name}" for name, number in counted.items())
    print(f"{asked.db}, {asked.transport}: {figures}, {time.monotonic() - began:.0f} s", flush=True)
    return int(counted["violations"] > 0)


if __name__ == "__main__":
    given = options()
    sys.exit(run_on(given) if given.db else run_on_all(sys.argv[1:]))

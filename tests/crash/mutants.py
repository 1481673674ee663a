"""Whether the laboratory notices anything: break the package on purpose, one wall at a time, and see it found out.

`python -m tests.crash.mutants --db postgres` works on copies in a temporary folder and prints a table. Exits with 1
when a broken package passes.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from tests import databases

SCHEDULES = 20
UNWANTED = shutil.ignore_patterns("__pycache__", ".*")


@dataclass(frozen=True)
class Mutant:
    """One wall torn down: texts of a module and what they become."""

    name: str
    module: str
    changes: tuple[tuple[str, str], ...]


MUTANTS = (
    Mutant(
        "fencing: a stale owner may store its outcome",
        "idempotency/claiming",
        ((".filter(pk=record.pk, owner=claim.owner)", ".filter(pk=record.pk)"),),
    ),
    Mutant(
        "unknown commit: reported as a failure",
        "worker/atomic",
        (
            ("(delivery.using)  # the driver may believe that this connection still works\n            return True",
             "(delivery.using)\n            return False"),
            ("                    return self._ledger.fail(",
             "                    if enclosure.phase is Phase.COMMIT:\n"
             "                        error = self._ledger.encoded(self._ledger.failure(delivery, cause))\n"
             "                        seen = (delivery.assignment, delivery.context, delivery.using)\n"
             "                        return self._ledger.report_bare(*seen, error)\n"
             "                    return self._ledger.fail("),
        ),
    ),
    Mutant(
        "same bytes: each try is written anew",
        "outbox/sending",
        (("    return body_of(message.token, Completion(message.record.output))",
          '    return body_of(message.token, Completion(message.record.output)) + " " * message.attempts'),),
    ),
    Mutant(
        "claim: a key with an outcome runs again",
        "idempotency/claiming",
        (("        return Stored(held)\n    if held.status == Status.FAILED",
          "        return None\n    if held.status == Status.FAILED"),),
    ),
    Mutant(
        "one at a time: a living claim keeps nobody out",
        "idempotency/claiming",
        (("    return held.lease_ms >= dialect.read_now_ms()", "    return False"),),
    ),
)  # fmt: skip


def broken(mutant: Mutant, folder: Path) -> None:
    """Copy package and tests, and tear the wall down; fails when it does not stand where it is expected."""
    for name in ("orbit_django", "tests"):
        shutil.copytree(databases.ROOT / name, folder / name, ignore=UNWANTED)
    path = folder / "orbit_django" / f"{mutant.module}.py"
    text = path.read_text(encoding="utf-8")
    for old, new in mutant.changes:
        assert text.count(old) >= 1, f"{mutant.name}: {mutant.module} does not contain {old!r}"
        text = text.replace(old, new, 1)
    path.write_text(text, encoding="utf-8")


def hunt(mutant: Mutant, database: str) -> tuple[bool, str]:
    """Run the laboratory on a broken copy; return whether it was noticed, and the first thing that was."""
    with tempfile.TemporaryDirectory(prefix="orbit-mutant-") as made:
        folder = Path(made)
        broken(mutant, folder)
        environment = {key: value for key, value in os.environ.items() if key != "ORBIT_TEST_RUN"}
        environment |= {"PYTHONPATH": made, "TMPDIR": made}
        command = [sys.executable, "-m", "tests.crash", "--db", database, "--schedules", str(SCHEDULES), "--first"]
        result = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    lines = [line for line in result.stdout.splitlines() if line.strip()]
    if result.returncode == 0:
        return False, lines[-1]
    if len(lines) < 2 or not lines[0].startswith("seed"):
        return False, f"the laboratory itself failed: {result.stderr[-500:]}"
    return True, f"{lines[0].split(' on ')[0]}: {lines[1].strip()}"


def main() -> int:
    """Hunt every mutant; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.crash.mutants", description="Break the package on purpose.")
    parser.add_argument("--db", choices=databases.NAMES, default="postgres", help="the database (postgres)")
    asked = parser.parse_args()
    survivors = 0
    for mutant in MUTANTS:
        began = time.monotonic()
        is_found, text = hunt(mutant, asked.db)
        survivors += not is_found
        verdict = "found" if is_found else "SURVIVED"
        print(f"{mutant.name:50} {verdict:9} {time.monotonic() - began:4.0f} s  {text[:150]}", flush=True)
    print(f"{len(MUTANTS) - survivors} of {len(MUTANTS)} found within {SCHEDULES} schedules on {asked.db}", flush=True)
    return int(survivors > 0)


if __name__ == "__main__":
    sys.exit(main())

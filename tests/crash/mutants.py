"""Whether the laboratory notices anything: break the package on purpose, one wall at a time, and see it found out.

`python -m tests.crash.mutants --db postgres` works on copies in a temporary folder and prints a table. Exits with 1
when a broken package passes. `--only TEXT` takes the mutants that have the text in their name.
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
class Change:
    """A text that stands in a module once, and what becomes of it."""

    module: str
    old: str
    new: str

    def path(self, root: Path) -> Path:
        """Return the module's file below a root."""
        return root / "orbit_django" / f"{self.module}.py"

    def applied(self, text: str) -> str:
        """Return the module's text with the change; fail when there is not one place for it."""
        assert text.count(self.old) == 1, f"{self.module} contains {text.count(self.old)} times {self.old!r}"
        return text.replace(self.old, self.new)


@dataclass(frozen=True)
class Mutant:
    """One wall torn down, on the way of every database that has it."""

    name: str
    changes: tuple[Change, ...]
    databases: tuple[str, ...] = databases.NAMES
    transport: str = "http"


MUTANTS = (
    Mutant(
        "fencing: a stale owner may store its outcome",
        (
            Change(
                "idempotency/claiming",
                ".running().filter(pk=claim.record.pk, owner=claim.owner)\n    guard",
                ".running().filter(pk=claim.record.pk)\n    guard",
            ),
            Change("dialects/postgresql", "AND owner = %s AND status", "AND %s::text IS NOT NULL AND status"),
            Change("dialects/guard", "AND owner = %s AND status", "AND %s IS NOT NULL AND status"),
        ),
    ),
    Mutant(
        "unknown commit: reported as a failure",
        (
            Change(
                "worker/atomic",
                "(delivery.using)  # the driver may believe that this connection still works\n"
                "            return delivery.runs < MAX_RUNS",
                "(delivery.using)\n            return False",
            ),
            Change(
                "worker/atomic",
                "                    return self._ledger.fail(",
                "                    if enclosure.phase is Phase.COMMIT:\n"
                "                        error = self._ledger.encoded(self._ledger.failure(delivery, cause))\n"
                "                        seen = (delivery.assignment, delivery.context, delivery.using)\n"
                "                        return self._ledger.report_bare(*seen, error)\n"
                "                    return self._ledger.fail(",
            ),
        ),
    ),
    Mutant(
        "same bytes: each try is written anew",
        (
            Change(
                "outbox/sending",
                "    return body_of(message.token, Completion(message.record.output), message.completion_id)",
                "    written = body_of(message.token, Completion(message.record.output), message.completion_id)\n"
                '    return written + " " * message.attempts',
            ),
        ),
    ),
    Mutant(
        "claim: a key with an outcome runs again",
        (
            Change(
                "idempotency/claiming",
                "        return Stored(held)\n    is_of_same",
                "        return None\n    is_of_same",
            ),
        ),
    ),
    Mutant(
        "one at a time: a living claim keeps nobody out",
        (
            Change(
                "idempotency/claiming",
                "    return held.lease_ms >= dialect.read_now_ms() or dialect.has_waited()",
                "    return False",
            ),
        ),
    ),
    Mutant(
        "kept statements: one that the server has lost is a success",
        (
            Change(
                "dialects/postgresql",
                "raise OperationalError(*error.args) from error.__cause__  # it passes: the same again will do",
                "return (1,)",
            ),
        ),
        databases=("postgres",),
    ),
    Mutant(
        "Weave: each try has a completion id of its own",
        (
            Change(
                "outbox/sending",
                "    return body_of(message.token, Completion(message.record.output), message.completion_id)",
                "    anew = str(uuid4()) if message.attempts and message.completion_id else message.completion_id\n"
                "    return body_of(message.token, Completion(message.record.output), anew)",
            ),
        ),
        transport="weave",
    ),
    Mutant(
        "gRPC: each try has its fields in an order of its own",
        (
            Change(
                "transports/grpc/reports",
                "    content = message.SerializeToString(deterministic=True)\n    if len",
                "    who, rest = CompleteTaskRequest(token=message.token), CompleteTaskRequest(output=message.output)\n"
                "    parts = [part.SerializeToString(deterministic=True) for part in (who, rest)]\n"
                "    content = b''.join(parts[:: __import__('random').choice((1, -1))])\n    if len",
            ),
        ),
        transport="grpc",
    ),
)


def broken(mutant: Mutant, folder: Path) -> None:
    """Copy package and tests, and tear the wall down; fails when it does not stand where it is expected."""
    for name in ("orbit_django", "tests"):
        shutil.copytree(databases.ROOT / name, folder / name, ignore=UNWANTED)
    for change in mutant.changes:
        path = change.path(folder)
        path.write_text(change.applied(path.read_text(encoding="utf-8")), encoding="utf-8")


def hunt(mutant: Mutant, database: str) -> tuple[bool, str]:
    """Run the laboratory on a broken copy; return whether it was noticed, and the first thing that was."""
    with tempfile.TemporaryDirectory(prefix="orbit-mutant-") as made:
        folder = Path(made)
        broken(mutant, folder)
        environment = {key: value for key, value in os.environ.items() if key != "ORBIT_TEST_RUN"}
        environment |= {"PYTHONPATH": made, "TMPDIR": made}
        how = ["--db", database, "--transport", mutant.transport, "--schedules", str(SCHEDULES), "--first"]
        command = [sys.executable, "-m", "tests.crash", *how]
        result = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    lines = [line for line in result.stdout.splitlines() if line.strip()]
    if result.returncode == 0:
        return False, lines[-1]
    if len(lines) < 2 or not lines[0].startswith("seed"):
        return False, f"the laboratory itself failed: {result.stderr[-500:]}"
    return True, f"{lines[0].split(' on ')[0]}: {lines[1].strip()}"


def main() -> int:
    """Hunt every mutant of the database; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.crash.mutants", description="Break the package on purpose.")
    parser.add_argument("--db", choices=databases.NAMES, default="postgres", help="the database (postgres)")
    parser.add_argument("--only", default="", metavar="TEXT", help="hunt those that have this in their name")
    asked = parser.parse_args()
    hunted = [mutant for mutant in MUTANTS if asked.db in mutant.databases and asked.only in mutant.name]
    survivors = 0
    for mutant in hunted:
        began = time.monotonic()
        is_found, text = hunt(mutant, asked.db)
        survivors += not is_found
        verdict = "found" if is_found else "SURVIVED"
        print(f"{mutant.name:58} {verdict:9} {time.monotonic() - began:4.0f} s  {text[:150]}", flush=True)
    print(f"{len(hunted) - survivors} of {len(hunted)} found within {SCHEDULES} schedules on {asked.db}", flush=True)
    return int(survivors > 0)


if __name__ == "__main__":
    sys.exit(main())

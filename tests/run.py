"""Run the suite on every database that answers: all of it on SQLite, the marked tests on the servers.

Arguments are handed to pytest. `ORBIT_TEST_REQUIRE=sqlite,postgres,mariadb` turns a database that does not answer
into a failure, `ORBIT_TEST_ONLY=sqlite` leaves the others out, `ORBIT_TEST_COVERAGE=1` measures, `ORBIT_TEST_WORKERS`
says how many tests run side by side. The last lines sum up what ran.
"""

import os
import subprocess
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")

from tests import databases

NOTHING_COLLECTED = 5
WORKERS = "3"  # most tests of processes wait most of the time, so that two cores do for them; four crowd each other
MESSAGE_CHARACTERS = 300
ALONE = {"-n", "-n0", "-n1", "-n2", "--pdb", "-s"}  # arguments that say otherwise


def named_in(variable: str) -> set[str]:
    """Return the databases that a variable names."""
    names = {name.strip() for name in os.environ.get(variable, "").split(",")} - {""}
    if unknown := names - set(databases.NAMES):
        raise SystemExit(f"{variable} names {sorted(unknown)}, expected some of {', '.join(databases.NAMES)}")
    return names


def wanted() -> list[str]:
    """Return the databases that are to be tested."""
    only = named_in("ORBIT_TEST_ONLY")
    return [name for name in databases.NAMES if not only or name in only]


def banner(*lines: str) -> None:
    """Print lines that nobody overlooks."""
    rule = "!" * 100
    print("", rule, *(f"!!  {line}" for line in lines), rule, "", sep="\n", flush=True)


def command(name: str, report: str, arguments: list[str]) -> list[str]:
    """Return the pytest command for one database; on a server only the tests that are about databases run."""
    marked = [] if name == "sqlite" else ["-m", "databases"]
    measured = ["coverage", "run", "-m"] if os.environ.get("ORBIT_TEST_COVERAGE") else []
    side_by_side = [] if ALONE & set(arguments) else ["-n", os.environ.get("ORBIT_TEST_WORKERS", WORKERS)]
    return [sys.executable, "-m", *measured, "pytest", f"--junitxml={report}", *side_by_side, *marked, *arguments]


def tally(report: Path) -> Counter[str]:
    """Count what one report tells."""
    counts: Counter[str] = Counter()
    if report.exists():
        for suite in ElementTree.parse(report).iter("testsuite"):
            bad = int(suite.get("failures", 0)) + int(suite.get("errors", 0))
            skipped = int(suite.get("skipped", 0))
            counts.update(failed=bad, skipped=skipped, passed=int(suite.get("tests", 0)) - bad - skipped)
    return counts


def failures(name: str, report: Path) -> Iterator[str]:
    """Yield a line for each test that failed on a database: what it is called, and how its error begins."""
    for case in ElementTree.parse(report).iter("testcase"):
        for fault in (*case.iter("failure"), *case.iter("error")):
            said = " ".join(str(fault.get("message")).split())[:MESSAGE_CHARACTERS]
            yield f"{name}: {case.get('classname')}::{case.get('name')}: {said}"


def run_on(name: str, arguments: list[str], failed: list[str]) -> tuple[int, Counter[str]]:
    """Run the suite on one database; return pytest's exit code and the counts, and add what ``failed``."""
    print(f"\n===== {name} =====", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        environment = os.environ | {"ORBIT_TEST_DB": name}
        result = subprocess.run(command(name, str(report), arguments), cwd=databases.ROOT, env=environment, check=False)
        if not report.exists():
            banner(f"{name}: the run ended without a report, so it did not end by itself")
            return result.returncode or 1, Counter(failed=1)
        failed += failures(name, report)
        return result.returncode, tally(report)


def run_all(names: list[str], arguments: list[str], failed: list[str]) -> tuple[int, Counter[str]]:
    """Run the suite on each database in turn; return the worst exit code and the sum of the counts.

    A selection that leaves nothing for one database is no failure, as long as something ran on another.
    """
    codes: list[int] = []
    total: Counter[str] = Counter()
    for name in names:
        code, counts = run_on(name, arguments, failed)
        codes.append(code)
        total.update(counts)
    if any(code != NOTHING_COLLECTED for code in codes):
        codes = [code for code in codes if code != NOTHING_COLLECTED]
    return max(map(abs, codes), default=NOTHING_COLLECTED), total


def main(arguments: list[str]) -> int:
    """Run everything that can be run, say what could not, and return the exit code."""
    # The databases are asked before Django's apps exist, which Django would warn of.
    warnings.simplefilter("ignore", RuntimeWarning)
    databases.run()
    names, must = wanted(), named_in("ORBIT_TEST_REQUIRE")
    troubles = {name: databases.trouble(name) for name in names}
    present = [name for name, trouble in troubles.items() if not trouble]
    missing = {name: trouble for name, trouble in troubles.items() if trouble}
    for name in present:
        databases.sweep(name)
    failed: list[str] = []
    code, total = run_all(present, arguments, failed)
    if missing:
        banner(*(f"NOT TESTED on {name}: {trouble}" for name, trouble in missing.items()))
    if lacking := sorted(must & set(missing)):
        banner(f"ORBIT_TEST_REQUIRE asks for {', '.join(lacking)}: this is a failure")
        code = code or 1
    if left_out := [name for name in databases.NAMES if name not in names]:
        print(f"ORBIT_TEST_ONLY leaves out {', '.join(left_out)}")
    print("", *failed, sep="\n")  # here, since only the end of a long output is read
    print(f"databases: {', '.join(present)}; exit code {code}; {total['skipped']} skipped")
    print(f"{total['passed']} passed, {total['failed']} failed", flush=True)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

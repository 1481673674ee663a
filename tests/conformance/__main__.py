"""Run every check, and write docs/conformance.md if all of them have passed; arguments are handed to pytest."""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from xml.etree import ElementTree

import django

from tests.conformance import table
from tests.conformance.page import PAGE, render
from tests.conformance.table import ROOT, Check


def verdicts(report: Path) -> dict[tuple[str, str], bool]:
    """Return for each check and binding in a junit report whether every case has passed."""
    found: dict[tuple[str, str], bool] = {}
    for case in ElementTree.parse(report).iter("testcase"):
        name, binding = _named(case.get("classname", ""), case.get("name", ""))
        has_passed = not [bad for bad in case if bad.tag in ("failure", "error", "skipped")]
        found[name, binding] = found.get((name, binding), True) and has_passed
    return found


def unproven(checks: Iterable[Check], found: Mapping[tuple[str, str], bool]) -> list[str]:
    """Return the checks that have not been run for one of their bindings, or did not pass."""
    wanted = [(check.name, binding) for check in checks for binding in check.bindings]
    return [f"{name}[{binding}]" for name, binding in wanted if not found.get((name, binding))]


def _named(module: str, case: str) -> tuple[str, str]:
    """Return check and binding of a case; the binding ends the brackets."""
    function, _, arguments = case.partition("[")
    binding = re.search(r"(\w+)\]$", arguments)
    return f"{module.rsplit('.', 1)[-1]}.{function}", binding[1] if binding else ""


def main(arguments: list[str]) -> int:
    """Return 0 when the page was written."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
    django.setup()
    checks = table.load()
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        chosen = arguments or ["-n", "2"]
        rest = ["tests/conformance", f"--ignore={Path(__file__).parent / 'test_table.py'}"]  # which reads the page
        command = [sys.executable, "-m", "pytest", "-q", f"--junitxml={report}", *rest, *chosen]
        code = subprocess.run(command, cwd=ROOT, check=False).returncode
        missing = unproven(checks.values(), verdicts(report) if report.exists() else {})
    if code or missing:
        print(f"{PAGE.name} was not written; not proven: {', '.join(missing) or 'see above'}")
        return code or 1
    PAGE.write_text(render(checks, list(table.clauses())), encoding="utf-8")
    print(f"{PAGE.relative_to(ROOT)}: {len(checks)} checks")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

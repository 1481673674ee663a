"""docs/conformance.md: what is proven of each clause, and the result for each binding."""

from collections.abc import Mapping

from tests.conformance.excused import EXCUSED
from tests.conformance.table import BINDINGS, ROOT, Check

PAGE = ROOT / "docs" / "conformance.md"
PASSES = "passes"
TITLES = {"http": "HTTP", "grpc": "gRPC"}
HEAD = """\
# Conformance

Each clause of [the protocol](protocol.md) that binds a worker is checked by watching one from outside: its calls with
their times, order and bytes, its exit code, its log, and what its handlers are given. A recorder stands between the
worker and the [development runtime](how-to/faults.md); it also gives the answers that an honest runtime
never would. {count} checks; {processes} of them watch a process of its own.

In a checkout, `make conformance` runs them all; it writes this page, and nothing when one fails.
"""


def render(checks: Mapping[str, Check], numbers: list[str]) -> str:
    """Return the page for checks that have all passed; the clauses in the order of their numbers."""
    processes = sum(check.has_process for check in checks.values())
    columns = [TITLES[binding] for binding in BINDINGS]
    lines = [
        HEAD.format(count=len(checks), processes=processes),
        "## Checked\n",
        f"| clause | what is checked | {' | '.join(columns)} |",
        "|---|---|" + "---|" * len(columns),
        *(_row(number, found) for number in numbers if (found := _proving(checks, number))),
        "\n## Not checked\n",
        "| clause | because it |",
        "|---|---|",
        *(f"| {number} | {EXCUSED[number]} |" for number in numbers if number in EXCUSED),
    ]
    return "\n".join(lines) + "\n"


def _proving(checks: Mapping[str, Check], number: str) -> list[Check]:
    return [check for check in checks.values() if number in check.clauses]


def _row(number: str, checks: list[Check]) -> str:
    titles = "<br>".join(sorted(check.title.replace("|", "\\|") for check in checks))
    cells = [PASSES if any(binding in check.bindings for check in checks) else "" for binding in BINDINGS]
    return f"| {number} | {titles} | {' | '.join(cells)} |"

"""Results: kept as JSON, shown as tables, with the machine, the versions and the date they belong to."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks import databases
from benchmarks.control import ROOT

FOLDER = ROOT / "benchmarks" / "results"
PACKAGES = ("Django", "requests", "urllib3", "psycopg", "mysqlclient")

Cell = str | float | None


def surroundings(kind: str, more: Iterable[str] = ()) -> dict[str, Any]:
    """Return what a result belongs to: when, where, which versions, and how busy the machine was."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": f"{_processor()}, {os.cpu_count()} cores, {_memory_gb():.0f} GB, {platform.system()}",
        "load": round(os.getloadavg()[0], 1),
        "commit": _commit(),
        "versions": [
            f"Python {platform.python_version()}",
            databases.version(kind),
            *(f"{name} {found}" for name in PACKAGES if (found := _version(name))),
            *more,
        ],
    }


def keep(what: str, about: dict[str, Any], data: Any) -> Path:
    """Write a result to its file; return where."""
    FOLDER.mkdir(exist_ok=True)
    stamp = about["date"].replace(":", "").replace("+0000", "").replace("-", "")
    path = FOLDER / f"{stamp}-{what}.json"
    path.write_text(json.dumps({"what": what, "about": about, "data": data}, indent=1) + "\n")
    return path


def latest(what: str) -> dict[str, Any] | None:
    """Return the newest result of a kind."""
    found = sorted(FOLDER.glob(f"*-{what}.json"))
    return json.loads(found[-1].read_text()) if found else None


def table(head: Sequence[str], rows: Iterable[Sequence[Cell]]) -> str:
    """Return a table in Markdown that reads well on a terminal, too; the first column is text, the rest numbers."""
    cells = [[_shown(cell) for cell in row] for row in rows]
    widths = [max(len(line[column]) for line in [list(head), *cells]) for column in range(len(head))]
    lines = [head, *cells]
    text = [
        "| "
        + " | ".join(
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        + " |"
        for line in lines
    ]
    rule = "|" + "|".join(
        "-" * (width + 2) if column == 0 else "-" * (width + 1) + ":" for column, width in enumerate(widths)
    )
    return "\n".join([text[0], f"{rule}|", *text[1:]])


def show(title: str, about: dict[str, Any], body: str) -> None:
    """Print a result."""
    print(f"\n{title}\n{about['date']}, {about['machine']}, load {about['load']}, commit {about['commit']}")
    print("; ".join(about["versions"]))
    print(f"\n{body}\n")


def _shown(cell: Cell) -> str:
    if cell is None:
        return ""
    if isinstance(cell, str):
        return cell
    size = abs(cell)
    if size >= 100 or (cell == int(cell) and size >= 10):
        return f"{cell:,.0f}"
    return f"{cell:.1f}" if size >= 10 else f"{cell:.2f}"


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _commit() -> str:
    command = ["git", "-c", f"safe.directory={ROOT}", "-C", str(ROOT), "describe", "--always", "--dirty"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        print("!! no commit is known: this is no checkout, or there is no git", file=sys.stderr)
        return "unknown"


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.partition(": ")[2] for line in lines if line.startswith("model name")), platform.machine())


def _memory_gb() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30

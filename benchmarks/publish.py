"""Write the newest results into docs/performance.md, between two marks, and draw the plots beside it."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Any

from benchmarks import plots, results, throughput
from benchmarks.control import ROOT
from benchmarks.growth import POINTS

PAGE = ROOT / "docs" / "performance.md"
FOLDER = ROOT / "docs" / "performance"
BEGIN, END = "<!-- results -->", "<!-- end of results -->"
DATABASES = {"postgres": "PostgreSQL", "mariadb": "MariaDB", "sqlite": "SQLite"}
SMALL = ("counts", "latency", "idle", "memory", "start", "outage", "profile")


def arguments(parser: ArgumentParser) -> None:
    """Nothing but what all have in common."""


def run(options: Namespace) -> None:
    """Put together what there is; a measurement without a result is left out."""
    parts = [part for kind in DATABASES if (part := _database(kind))]
    if not parts:
        raise SystemExit("there are no results yet: run `make bench` first")
    before, _, rest = PAGE.read_text().partition(BEGIN)
    after = rest.partition(END)[2]
    PAGE.write_text(f"{before}{BEGIN}\n\n" + "\n\n".join(parts) + f"\n\n{END}{after}")
    print(f"written: {PAGE.relative_to(ROOT)}")


def _database(kind: str) -> str:
    """Return everything that was measured on one database."""
    parts = [_main(kind), _growth(kind), *(_small(what, kind) for what in SMALL)]
    found = [part for part in parts if part]
    return "\n\n".join([f"### {DATABASES[kind]}", *found]) if found else ""


def _main(kind: str) -> str:
    found = results.latest(f"throughput-{kind}")
    if found is None:
        return ""
    data = found["data"]
    return _section(f"Throughput, {data['rounds']} rounds", found, throughput.text_of(data))


def _small(what: str, kind: str) -> str:
    found = results.latest(f"{what}-{kind}")
    return _section(found["data"]["title"], found, found["data"]["text"]) if found else ""


def _growth(kind: str) -> str:
    """Draw what has grown; the tables stay in the results."""
    found = {by: result for by in POINTS if (result := results.latest(f"growth-{by}-{kind}"))}
    if not found:
        return ""
    FOLDER.mkdir(exist_ok=True)
    path = FOLDER / f"growth-{kind}.svg"
    plots.draw({by: result["data"]["values"] for by, result in found.items()}, path)
    newest = max(found.values(), key=lambda result: str(result["about"]["date"]))
    text = f"![Throughput by settled rows, threads, processes, payload and handler](performance/{path.name})"
    tables = "\n\n".join(result["data"]["text"] for result in found.values())
    return _section("Growth", newest, f"{text}\n\n{tables}")


def _section(title: str, found: dict[str, Any], text: str) -> str:
    about = found["about"]
    where = f"{about['date'][:10]}, {about['machine']}, load {about['load']} before, commit {about['commit']}"
    return f"#### {title}\n\n{where}; {'; '.join(about['versions'])}.\n\n{text}"

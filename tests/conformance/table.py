"""The table of checks: what each proves, by clause, and for which bindings it is run."""

import importlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
PROTOCOL = ROOT / "docs" / "protocol.md"
BINDINGS = ("http", "grpc")
APPS = ["orbit_django", "tests.testapp"]  # whose tables are emptied after a check; all of them take much longer


@dataclass(frozen=True)
class Check:
    """One check."""

    name: str  # module and function
    title: str  # one sentence
    clauses: tuple[str, ...]
    bindings: tuple[str, ...]
    has_process: bool  # whether its worker is a process of its own


CHECKS: dict[str, Check] = {}


def check(title: str, *clauses: str, only: str | None = None, process: bool = False) -> Callable[[Any], Any]:
    """Register a test function as the check of some clauses, run once for each binding that it is about."""
    bindings = (only,) if only else BINDINGS

    def register(function: Any) -> Any:
        name = f"{function.__module__.rsplit('.', 1)[-1]}.{function.__name__}"
        CHECKS[name] = Check(name, title, clauses, bindings, process)
        on_tables = pytest.mark.django_db(transaction=True, available_apps=APPS)
        return on_tables(pytest.mark.parametrize("binding", bindings, indirect=True)(function))

    return register


def load() -> dict[str, Check]:
    """Import every module with checks, and return the table."""
    for path in sorted(Path(__file__).parent.glob("test_*.py")):
        importlib.import_module(f"tests.conformance.{path.stem}")
    return CHECKS


def clauses() -> dict[str, str]:
    """Return the clauses of docs/protocol.md by number, each with its text."""
    text = PROTOCOL.read_text(encoding="utf-8")
    points = re.findall(r"^- (O\d{3}) (.+?)(?=\n- |\n\n|\Z)", text, re.MULTILINE | re.DOTALL)
    rows = re.findall(r"^\| (O\d{3}) \| (.+) \|$", text, re.MULTILINE)
    return {number: " ".join(words.split()) for number, words in (*points, *rows)}

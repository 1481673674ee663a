"""The page that compares: a test behind each mark of our own, or a page that says why not; sources for the others."""

import ast
import re

import pytest

from tests.docs.pages import ROOT, text_of

PAGE = text_of("docs/comparison.md")
MARKS = {"yes", "partly", "\N{EN DASH}", "n/a"}
BEHIND = PAGE.index("## Behind our marks")


def rows(text: str) -> list[list[str]]:
    """Return the rows of all tables of a text, their heads among them."""
    lines = [line for line in text.splitlines() if line.startswith("|") and not set(line) <= set("|-")]
    return [[cell.strip(" *") for cell in line.strip("|").split("|")] for line in lines]


def said(heading: str, end: str) -> list[list[str]]:
    """Return the rows of the table between two headings, without its head."""
    start = PAGE.index(f"\n{heading}\n")
    return rows(PAGE[start : PAGE.index(f"\n{end}", start + 1)])[1:]


PARTS = [
    ("## Packages for Django", "## Workers", "### Beside packages for Django", "### Beside workers"),
    ("## Workers of workflow engines", "## What is", "### Beside workers of workflow engines", "## Where"),
]
NAMED = sorted({name for row in rows(PAGE[BEHIND:]) for name in re.findall(r"`(tests/[^`]+)`", row[-1])})


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part[0].strip("# "))
def test_every_mark_is_a_known_one_and_ours_have_something_behind_them(part) -> None:
    marks, behind = said(*part[:2]), said(*part[2:])
    assert {len(row) for row in marks} == {len(rows(PAGE[PAGE.index(part[0]) :])[0])}
    assert {cell for row in marks for cell in row[1:]} <= MARKS
    assert [row[:2] for row in marks] == [row[:2] for row in behind]
    assert [row for row in behind if row[1] == "yes" and "`tests/" not in row[2]] == []


@pytest.mark.parametrize("name", NAMED)
def test_a_test_that_is_named_exists(name: str) -> None:
    path, _, function = name.partition("::")
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    tests = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    assert function in tests if function else any(each.startswith("test_") for each in tests)


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part[0].strip("# "))
def test_a_system_with_a_qualified_mark_has_a_note_with_a_source(part) -> None:
    text = PAGE[PAGE.index(f"\n{part[0]}\n") : PAGE.index(f"\n{part[1]}")]
    head, *marks = rows(text)
    notes = dict(re.findall(r"^- \*\*([^*]+?)\.?\*\*(.*(?:\n  .*)*)", text, re.MULTILINE))
    qualified = {head[at].capitalize() for row in marks for at in range(2, len(row)) if row[at] == "partly"}
    sourced = {name.capitalize() for name, note in notes.items() if "](https://" in note}
    assert qualified
    assert sorted(qualified - sourced) == []


def test_each_system_is_led_to_where_it_was_read_and_in_which_version() -> None:
    systems = {cell for part in PARTS for cell in rows(PAGE[PAGE.index(part[0]) :])[0][2:]} - {"outbox packages"}
    read = PAGE[PAGE.index("## Where this was read") :].replace("Django's tasks", "Django tasks")
    assert [system for system in sorted(systems) if f"[{system}](https://" not in read] == []
    assert [row for row in rows(read)[1:] if not re.search(r" \d+(\.\d+)+$", row[-1])] == []

"""The page on the log lists every text that is logged, with its level, and no other."""

import ast
import logging
import re
from collections.abc import Iterator

import pytest

from tests.docs.pages import ROOT
from tests.docs.test_reference import rows

PAGE = "docs/reference/log.md"
LEVELS = {"exception": {"ERROR"}, "log": set(logging.getLevelNamesMapping())}
APART = ("orbit_django/testing",)  # whose lines are a test's own


def calls() -> Iterator[tuple[str, str]]:
    """Yield the level, or "log" for one that is not fixed, and the text of everything that the package logs."""
    for path in sorted((ROOT / "orbit_django").rglob("*.py")):
        if not str(path.relative_to(ROOT)).startswith(APART):
            yield from _calls(ast.parse(path.read_text(encoding="utf-8")))


def _calls(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for function in [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]:
        named = dict(_constants(function))
        for method, given in _given(function):
            word = ast.unparse(given)
            if isinstance(given, ast.Constant) or word in named:
                yield method, named.get(word) or str(ast.literal_eval(given))
            elif word not in VARIABLE:
                raise AssertionError(f"line {given.lineno}: {word} is no constant text")


def _given(function: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """Yield the method and the text of each call of a logger."""
    calls = [node for node in ast.walk(function) if isinstance(node, ast.Call)]
    for call in [each for each in calls if isinstance(each.func, ast.Attribute) and each.func.attr in METHODS]:
        owner, _, method = ast.unparse(call.func).rpartition(".")
        if owner.endswith("logger"):
            yield method, call.args[1 if method == "log" else 0]


def _constants(function: ast.AST) -> Iterator[tuple[str, str]]:
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            yield ast.unparse(node.targets[0]), str(node.value.value)


METHODS = ("debug", "info", "warning", "error", "exception", "log")
VARIABLE = ("format", "text")  # the base class's own lines, and what `_log` of the effects hands on


def listed() -> list[tuple[set[str], str]]:
    """Return the levels and the text of each entry."""
    return [(set(re.findall("[A-Z]+", row[0])), text) for row in rows(PAGE) for text in row[1].split("<br>")]


def is_meant(entry: str, text: str) -> bool:
    return re.fullmatch(".*".join(map(re.escape, entry.split("…"))), text) is not None


@pytest.fixture(scope="module")
def logged() -> list[tuple[str, str]]:
    handed_on = [
        ("info", text) for text in re.findall(r'self\._log\("([^"]+)"', source("orbit_django/effects/calls.py"))
    ]
    assert len(set(handed_on)) == 2
    return [*calls(), *handed_on]


def source(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def test_every_text_that_is_logged_is_listed_with_its_level(logged: list[tuple[str, str]]) -> None:
    for method, text in logged:
        found = [levels for levels, entry in listed() if is_meant(entry, text)]
        assert found, f"{text!r} is not on {PAGE}"
        assert any(levels & LEVELS.get(method, {method.upper()}) for levels in found), f"{text!r} has another level"


def test_every_text_that_is_listed_is_logged(logged: list[tuple[str, str]]) -> None:
    for _, entry in listed():
        assert any(is_meant(entry, text) for _, text in logged), f"{entry!r} is never logged"

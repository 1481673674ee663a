"""What a user reads who has the wheel, or the site, and no checkout: messages, hints, options, pages."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, ROOT, text_of

TARGETS = re.findall(r"^([a-z-]+):.*##", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
MAKE = rf"\bmake (?:{'|'.join(TARGETS)})\b"
FOLDERS = r"\b(?:docs|tests|benchmarks|example_project|requirements)/"
ONLY_THERE = re.compile(rf"{MAKE}|{FOLDERS}|\.md\b|\bREADME\b|\b(?i:checkout)\b")
OF_PAGES = re.compile(rf"`{MAKE}|`{FOLDERS}")
CODE = sorted((ROOT / "orbit_django").rglob("*.py"))
TEMPLATES = sorted((ROOT / "orbit_django").rglob("*.html"))


def texts(path: Path) -> Iterator[str]:
    """Yield the texts of a module that it may show to somebody: all but its docstrings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    kinds = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    own = {id(node.body[0].value) for node in ast.walk(tree) if isinstance(node, kinds) and is_docstring(node.body)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in own:
            yield node.value


def is_docstring(body: list[ast.stmt]) -> bool:
    return bool(body) and isinstance(body[0], ast.Expr)


def test_no_message_speaks_of_what_only_a_checkout_has() -> None:
    said = [(path.name, text) for path in CODE for text in texts(path)]
    said += [(path.name, path.read_text(encoding="utf-8")) for path in TEMPLATES]
    assert len(said) > 1_000
    assert [(name, text) for name, text in said if ONLY_THERE.search(text)] == []


@pytest.mark.parametrize("page", ["README.md", "CHANGELOG.md", *PAGES])
def test_a_page_says_where_the_things_of_a_checkout_are_before_it_names_them(page: str) -> None:
    text = text_of(page)
    first = OF_PAGES.search(text)
    assert first is None or re.search(r"\ba\s+checkout\b", text[: first.start()])


@pytest.mark.parametrize("page", ["README.md", *PAGES])
def test_what_is_installed_has_the_name_of_the_package(page: str) -> None:
    installed = re.findall(r"\bpip install (.+)", text_of(page))
    assert [line for line in installed if line.startswith(("/", "'/", ".", "-e"))] == []


def test_no_message_leaves_the_plural_to_its_reader() -> None:
    said = [(path.name, text) for path in CODE for text in texts(path)]
    assert [(name, text) for name, text in said if re.search(r"\w\((?:s|es)\)", text)] == []

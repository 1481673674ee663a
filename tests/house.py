"""What the house test measures: sizes, names, marks and writers, read from the source without importing it."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ("orbit_django", "example_project", "tests", "benchmarks")
GENERATED = re.compile(r"_pb2(_grpc)?\.pyi?$")
WRITES = {
    f"{prefix}{verb}"
    for prefix in ("", "a")
    for verb in ("create", "update", "delete", "bulk_create", "bulk_update", "get_or_create", "update_or_create")
}
Function = ast.FunctionDef | ast.AsyncFunctionDef


def modules(*folders: str) -> Iterator[tuple[str, ast.Module, str]]:
    """Yield path, syntax tree and text of every module that people wrote."""
    for folder in folders or SOURCES:
        for path in sorted((ROOT / folder).rglob("*.py")):
            if "migrations" not in path.parts and not GENERATED.search(path.name):
                text = path.read_text(encoding="utf-8")
                yield path.relative_to(ROOT).as_posix(), ast.parse(text), text


def module_sizes() -> dict[str, int]:
    """Return the lines of each module."""
    return {path: len(text.splitlines()) for path, _, text in modules()}


def function_sizes() -> dict[str, int]:
    """Return the lines of each function, its decorators and its docstring left out."""
    return {
        f"{path}:{node.lineno}::{node.name}": _length(node)  # a module has many functions of one name, such as __init__
        for path, tree, _ in modules()
        for node in ast.walk(tree)
        if isinstance(node, Function)
    }


def _length(node: Function) -> int:
    lines = (node.end_lineno or node.lineno) - node.lineno + 1
    if ast.get_docstring(node) is None:
        return lines
    docstring = node.body[0]
    return lines - ((docstring.end_lineno or docstring.lineno) - docstring.lineno + 1)


def promises_stated(text: str) -> set[str]:
    """Return the promises that a document states: their numbers in headings or in bold."""
    headings = re.findall(r"^#+.*$", text, re.MULTILINE)
    bold = re.findall(r"\*\*(.+?)\*\*", text, re.DOTALL)
    return {number for part in headings + bold for number in re.findall(r"\b[EDW]\d{1,2}\b", part)}


def promises_tested() -> dict[str, str]:
    """Return each promise that a test is marked with, and one file that does so."""
    return {
        str(argument.value): path
        for path, tree, _ in modules("tests")
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "promise"
        for argument in node.args
        if isinstance(argument, ast.Constant)
    }


def names_given(folder: str) -> Iterator[tuple[str, str]]:
    """Yield path and name of each module, class and function of a folder."""
    for path, tree, _ in modules(folder):
        yield path, Path(path).stem
        for node in ast.walk(tree):
            if isinstance(node, Function | ast.ClassDef):
                yield path, node.name


def words(name: str) -> set[str]:
    """Split a name into its words."""
    return {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)}


def imports(tree: ast.AST) -> set[str]:
    """Return the modules that a module imports, and what it takes from them, by their full names."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module or "")
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return found


def writes(tree: ast.AST) -> Iterator[str]:
    """Yield the classes through whose query sets something is written."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in WRITES:
            yield _root(node.func)


def _root(node: ast.expr) -> str:
    """Walk down a chain like `Model.objects.using(alias).filter(…)` to the name it begins with."""
    while isinstance(node, ast.Attribute | ast.Call | ast.Subscript):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""

"""What the reference lists is what the code has: nothing is missing, and nothing is made up."""

import ast
import inspect
import re
from collections.abc import Iterator

import pytest
from django.dispatch import Signal

from orbit_django import conf, signals
from orbit_django.agreement import comparison
from orbit_django.conf import OrbitSettings
from orbit_django.management import commands
from orbit_django.protocol import Code
from orbit_django.worker import announce
from orbit_django.worker.probes.metrics import GAUGES, _Collected
from orbit_django.worker.vitals import Numbers
from tests.docs.listing import COMMANDS, actions, listings, with_listing
from tests.docs.pages import ROOT, text_of
from tests.management.test_help import NAMES, parser_of

CODE_NAME = re.compile(r"`([^`]+)`")


def rows(page: str) -> list[list[str]]:
    """Return the cells of every line of a page's tables, headings left out."""
    lines = re.findall(r"^\|(.+)\|$", text_of(page), re.MULTILINE)
    cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)] for line in lines]
    heads = {index - 1 for index, row in enumerate(cells) if set(row[0]) <= {"-"}}
    return [row for index, row in enumerate(cells) if index not in heads and set(row[0]) - {"-"}]


def first_names(page: str) -> list[str]:
    """Return what stands as code in the first column."""
    return [name for row in rows(page) for name in CODE_NAME.findall(row[0])]


@pytest.mark.parametrize("page", listings())
def test_what_is_written_from_the_code_is_what_the_code_says_now(page: str) -> None:
    assert text_of(page) == with_listing(page, listings()[page]), "to write it again: python -m tests.docs"


def test_settings() -> None:
    fields = OrbitSettings.__dataclass_fields__
    page = "docs/reference/settings.md"
    assert sorted(first_names(page)) == sorted(name.upper() for name in fields)
    for key, default, environment, _ in rows(page):
        for name in CODE_NAME.findall(key):
            assert environment == (f"`ORBIT_{name}`" if name in conf.FROM_ENVIRONMENT else ""), name
            has = fields[name.lower()].default
            if isinstance(has, int | float) and not isinstance(has, bool):
                assert float(default) == has, name
            elif has is None or callable(fields[name.lower()].default_factory):
                assert not re.search(r"[`\d]", default.replace("`CLIENT_CERT`", "")), name
            elif has not in ("", ()):
                assert default == f"`{has}`", name


def test_codes() -> None:
    names = first_names("docs/reference/codes.md")
    assert sorted(names) == sorted(member.value for member in Code)


def test_checks() -> None:
    modules = sorted((ROOT / "orbit_django" / "checks").glob("*.py"))
    sources = inspect.getsource(comparison) + "".join(each.read_text(encoding="utf-8") for each in modules)
    used = {f"orbit_django.{name}" for name in re.findall(r"(?<![A-Z])[EW]0\d\d\b", sources)}
    assert sorted(first_names("docs/reference/checks.md")) == sorted(used)


def test_metrics() -> None:
    numbers = Numbers(gauges=dict.fromkeys(GAUGES, 0), counts=(), seconds={}, outbox={})
    families = list(_Collected(([], [], numbers)).collect())
    has = {f"{each.name}_total" if each.type == "counter" else each.name: set(each._labelnames) for each in families}
    listed = {
        name: set(CODE_NAME.findall(row[1]))
        for row in rows("docs/reference/metrics.md")
        for name in CODE_NAME.findall(row[0])
    }
    assert listed == has


def sent() -> dict[str, set[str]]:
    """Return the arguments that each signal is sent with."""
    calls = [node for node in ast.walk(ast.parse(inspect.getsource(announce))) if isinstance(node, ast.Call)]
    told = [call for call in calls if isinstance(call.func, ast.Name) and call.func.id == "_send"]
    return {ast.unparse(call.args[0]).rpartition(".")[2]: {str(each.arg) for each in call.keywords} for call in told}


def test_signals() -> None:
    page = "docs/reference/signals.md"
    assert sorted(first_names(page)) == sorted(name for name, what in vars(signals).items() if isinstance(what, Signal))
    listed = {}
    for row in rows(page):
        outside = re.sub(r"\(.*?\)", "", row[3])
        listed[row[0].strip("`")] = set(CODE_NAME.findall(outside))
    assert listed == sent()


def exit_codes(name: str) -> set[str]:
    """Return the codes that the module of a command ends with, as far as they stand in it; 0 for the end of it."""
    tree = ast.parse((ROOT / commands.__path__[0] / f"{name}.py").read_text(encoding="utf-8"))
    constants = dict(_constants(tree)) | {"MISTAKE": 2, "FAILED": 1}
    found = {0}
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        called = ast.unparse(call.func)
        if called == "CommandError":
            given = [keyword.value for keyword in call.keywords if keyword.arg == "returncode"]
            found.add(_value(given[0], constants) if given else 1)
        elif called == "database_fault":
            found |= {1, 2}  # the database is away, or was not migrated
        elif called in ("sys.exit", "leave_at_once"):
            found.add(_value(call.args[0], constants))
    return {str(code) for code in found}


def _constants(tree: ast.Module) -> Iterator[tuple[str, int]]:
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, int):
            yield ast.unparse(node.targets[0]), node.value.value


def _value(node: ast.expr, constants: dict[str, int]) -> int:
    return node.value if isinstance(node, ast.Constant) else constants.get(ast.unparse(node), 1)


@pytest.mark.parametrize("name", NAMES)
def test_exit_codes(name: str) -> None:
    told = [row[2] for row in rows(COMMANDS) if len(row) == 3 and row[0].strip("`").split()[0] == name]
    assert told, f"{name} is not in the table"
    assert {code for cell in told for code in re.findall(r"(?:^|; )(\d+)\b", cell)} == exit_codes(name)


def test_every_command_and_action_is_in_the_table() -> None:
    named = {" ".join(row[0].strip("`").split()[:2]) for row in rows(COMMANDS) if len(row) == 3}
    wanted = {f"{name} {action}".strip() for name in NAMES for action in actions(parser_of(name)) or [""]}
    assert named - {"orbit_tasks --stubs"} == wanted


def test_what_the_tables_are_read_by() -> None:
    assert ["`docs`"] not in rows(COMMANDS)
    assert exit_codes("orbit_outbox") == {"0", "1", "2", "130"}

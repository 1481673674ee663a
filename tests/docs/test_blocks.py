"""Every block of code of the README and of the pages is run, or put before whatever would read it.

A comment above a block says how, where that is not the usual way:

``<!-- with: NAME -->``      it is run with something that the page speaks of and does not show, from ``GIVEN``
``<!-- compiled -->``        it is compiled, and what it imports is there; running it would take more than the page has
``<!-- needs: Django 6.0 -->``  with an older one it is compiled, and the test says that it was not run
"""

import ast
import importlib
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import django
import pytest

from orbit_django.contracts import Catalog, read
from orbit_django.embedded.callers import read_identities
from orbit_django.tasks import registry
from tests.docs import shells
from tests.docs.listing import actions
from tests.docs.pages import ALL, ROOT, Block, blocks, every_block, text_of
from tests.test_readme import SETTINGS

# Pages whose blocks make one project, and the module that plays it.
PLAYED = {
    "README.md": "tests/test_readme.py",
    "docs/tutorial.md": "tests/docs/test_tutorial.py",
    "docs/how-to/testing.md": "tests/testing/test_page.py",
    "docs/reference/client.md": "tests/docs/test_client_page.py",
    "docs/how-to/recipes.md": "tests/test_recipes.py",
}
# Languages, and the test that reads them; of a "text" nothing can be said here.
READ = {"python", "orbit", "sh", "ini", "yaml", "toml", "dockerfile", "text"}
GIVEN: dict[str, Callable[[], Any]] = {"runtime": Catalog, "pytest": lambda: pytest}
LOADED = """
import sys
import django
django.setup()
from orbit_django import conf
assert conf.unknown_keys() == [], conf.unknown_keys()
assert conf.faults() == [], conf.faults()
print(conf.load())
"""
CALL = re.compile(r"`(orbit_\w+(?: [^`]+)?)`")


def unplayed(*languages: str) -> list[Block]:
    return [block for block in every_block(*languages) if block.page not in PLAYED]


def is_settings(block: Block) -> bool:
    return block.language == "python" and bool(re.search(r"^ORBIT = ", block.text, re.MULTILINE))


@pytest.fixture
def own_registry(monkeypatch) -> None:
    """Let handlers of a page be served by nobody else."""
    monkeypatch.setattr(registry, "_tasks", {})
    monkeypatch.setattr(registry, "faults", [])


def test_every_block_names_a_language_that_is_read_here() -> None:
    assert {str(block): block.language for block in every_block("") + every_block("none")} == {}
    seen = {block.language for page in ALL for block in blocks(page)} - {"mark"}
    assert seen == READ


@pytest.mark.parametrize("page", PLAYED)
def test_a_page_that_is_played_is_read_by_its_test(page: str) -> None:
    assert Path(page).name in text_of(PLAYED[page])


def test_no_comment_is_left_unread() -> None:
    known = {"with", "compiled", "needs"}
    others = {block.way[0] for page in ALL if page not in PLAYED for block in blocks(page)}
    written = {"", "written from the code", "end", "results", "end of results"}
    assert others - known - written == set()


@pytest.mark.parametrize("block", [each for each in unplayed("python") if not is_settings(each)], ids=str)
def test_python(block: Block, own_registry, tmp_path: Path) -> None:
    code = compile(block.text, str(block), "exec")
    way, about = block.way
    is_old = way == "needs" and tuple(map(int, about.removeprefix("Django ").split("."))) > django.VERSION
    if way == "compiled" or is_old:
        resolve(block.text, but="django.tasks" if is_old else "")
        if is_old:
            pytest.skip(f"{block} was compiled and not run: it needs {about}, this is {django.__version__}")
        return
    names = {"__name__": "page", "BASE_DIR": tmp_path} | ({about: GIVEN[about]()} if way == "with" else {})
    exec(code, names)  # noqa: S102  (the page's own block)


def resolve(text: str, but: str) -> None:
    """Import what a text imports."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.module and node.module != but:
            module = importlib.import_module(node.module)
            for alias in node.names:
                assert hasattr(module, alias.name), f"{node.module}.{alias.name}"


@pytest.mark.parametrize("block", [each for each in unplayed("python") if is_settings(each)], ids=str)
def test_settings_are_such(block: Block, tmp_path: Path) -> None:
    (tmp_path / "page.py").write_text(SETTINGS + block.text, encoding="utf-8")
    for name in re.findall(r'BASE_DIR / "(\w+)" / "([\w.-]+)"', block.text):
        (tmp_path / name[0]).mkdir(exist_ok=True)
        (tmp_path / "/".join(name)).touch()  # that it can be read is looked at, not what it is
    clean = {name: value for name, value in os.environ.items() if not name.startswith("ORBIT_")}
    path = os.pathsep.join([str(tmp_path), str(ROOT)])
    environment = clean | {"PYTHONPATH": path, "DJANGO_SETTINGS_MODULE": "page"}
    command = [sys.executable, "-c", LOADED]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=50, check=False)
    assert done.returncode == 0, done.stderr
    assert "OrbitSettings(" in done.stdout


@pytest.mark.parametrize("block", every_block("orbit"), ids=str)
def test_contracts(block: Block) -> None:
    assert read(block.text).workflows


@pytest.mark.parametrize("block", every_block("sh"), ids=str)
def test_shell(block: Block) -> None:
    found = list(shells.commands(block.text))
    assert found
    assert [fault for words in found for fault in shells.faults(words)] == []


@pytest.mark.parametrize("block", every_block("text"), ids=str)
def test_commands_within_other_text(block: Block) -> None:
    found = re.findall(r"manage\.py (.+)$", block.text, re.MULTILINE)
    assert [fault for command in found for fault in shells.managed(command.split())] == []


@pytest.mark.parametrize("page", ALL)
def test_commands_within_sentences(page: str) -> None:
    wrong = []
    for call in CALL.findall(text_of(page)):
        name, *words = call.partition("|")[0].replace("…", "").split()
        if name not in shells.get_commands():
            continue  # a module, a table, a fixture
        known = set(text_of_options(name))
        wrong += [call for word in words if word.startswith("-") and word.split("=")[0] not in known]
    assert wrong == []


def text_of_options(name: str) -> list[str]:
    """Return every option of a command and of its actions."""
    parser = shells.parser_of(name)
    every = [parser, *actions(parser).values()]
    return [option for each in every for action in each._actions for option in action.option_strings]


@pytest.mark.parametrize("block", every_block("toml"), ids=str)
def test_workers_files(block: Block) -> None:
    assert tomllib.loads(block.text)["worker"]
    assert all(identity.tasks for identity in read_identities(block.text, str(block)))


@pytest.mark.parametrize("block", every_block("dockerfile"), ids=str)
def test_dockerfiles(block: Block) -> None:
    word, _, command = block.text.strip().partition(" ")
    assert word in ("CMD", "ENTRYPOINT")
    assert shells.faults(json.loads(command)) == []


def test_the_readme_has_no_block_that_nobody_plays() -> None:
    from tests.test_readme import files

    played = "\n".join(files().values())
    assert [str(each) for each in blocks("README.md") if each.language != "sh" and each.text not in played] == []


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("python manage.py orbit_worker --procesess 2", "manage.py orbit_worker --procesess 2: "),
        ("python manage.py orbit_worker --process 2", "manage.py orbit_worker --process 2: "),
        ("python manage.py orbit_wroker", "manage.py orbit_wroker: no such command"),
        ("make demos", "make demos: no such target"),
        ("cd x && pyhton manage.py check > y", "pyhton: not a program that the pages use"),
        ("python manage.py orbit_outbox pruen  # a comment", "manage.py orbit_outbox pruen: "),
    ],
)
def test_a_slip_of_the_pen_is_seen(text: str, fault: str) -> None:
    (told,) = [each for words in shells.commands(text) for each in shells.faults(words)]
    assert told.startswith(fault)

"""The house rules that no linter knows: sizes, words, promises, pinned requirements, one writer per table."""

import ast
import re
import subprocess

import pytest

from tests import house

MODULE_STOP = 300
FUNCTION_STOP = 40
# Path, or path::function, of what may be longer, with the reason.
EXEMPTIONS: dict[str, str] = {}

# Words of other products, and words that name nothing; the wire and Django have their own, allowed below.
FOREIGN_WORDS = {"job", "jobs", "queue", "broker", "manager", "service", "helper", "helpers", "util", "utils", "mock"}
ALLOWED_NAMES: dict[str, str] = {}

WRITERS = {
    "IdempotencyRecord": "orbit_django/idempotency",
    "Effect": "orbit_django/effects",
    "OutboxMessage": "orbit_django/outbox",
    "WorkflowStart": "orbit_django/starts",
}

# The standard library's network modules: who calls, and who listens.
NETWORK = {"http.client", "http.server", "socketserver", "urllib.request"}
NETWORK_ROOMS = (
    "orbit_django/transports/",
    "orbit_django/embedded/listener",
    "orbit_django/embedded/server",
    "orbit_django/embedded/faults",
    "orbit_django/embedded/weave/server",
    "orbit_django/worker/probes",
)

LAYOUT = {
    ".ci", ".editorconfig", ".gitignore", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "MANIFEST.in", "Makefile",
    "README.md", "benchmarks", "docs", "example_project", "manage.py", "orbit_django", "pyproject.toml", "requirements",
    "tests",
}  # fmt: skip

UNFINISHED = re.compile(rb"\b(TO" rb"DO|FIX" rb"ME|X" rb"XX)\b")


def too_long() -> dict[str, int]:
    modules = {path: size for path, size in house.module_sizes().items() if size > MODULE_STOP}
    functions = {name: size for name, size in house.function_sizes().items() if size > FUNCTION_STOP}
    return modules | functions


def tracked_files() -> list[str]:
    if not (house.ROOT / ".git").exists():
        pytest.skip("not a checkout")
    command = ["git", "-c", f"safe.directory={house.ROOT}", "ls-files", "-z"]
    result = subprocess.run(command, cwd=house.ROOT, capture_output=True, text=True, check=True)
    return [name for name in result.stdout.split("\0") if name and (house.ROOT / name).is_file()]


def test_no_module_or_function_is_too_long() -> None:
    assert {name: size for name, size in too_long().items() if name not in EXEMPTIONS} == {}


def test_every_exemption_is_needed_and_has_a_reason() -> None:
    assert set(EXEMPTIONS) <= set(too_long())
    assert all(len(reason) > 10 for reason in (EXEMPTIONS | ALLOWED_NAMES).values())


def test_every_promise_has_a_test_and_every_mark_a_promise() -> None:
    stated = house.promises_stated((house.ROOT / "docs" / "guarantees.md").read_text(encoding="utf-8"))
    tested = set(house.promises_tested())

    assert stated, "docs/guarantees.md states no promise"
    assert sorted(stated - tested) == [], "stated, but no test is marked with it"
    assert sorted(tested - stated) == [], "marked, but not stated"


def test_names_are_made_of_our_own_words() -> None:
    found = {
        f"{path}: {name}"
        for path, name in house.names_given("orbit_django")
        if house.words(name) & FOREIGN_WORDS and name not in ALLOWED_NAMES
    }

    assert found == set()


def test_each_table_has_one_writer() -> None:
    found = {
        f"{path} writes {model}"
        for path, tree, _ in house.modules("orbit_django")
        for model in house.writes(tree)
        if model in WRITERS and not path.startswith((WRITERS[model], "orbit_django/models"))
    }

    assert found == set()


def test_only_the_bindings_speak_to_the_network() -> None:
    found = {
        f"{path} imports {name}"
        for path, tree, _ in house.modules("orbit_django")
        for name in house.imports(tree) & NETWORK
        if not path.startswith(NETWORK_ROOMS)
    }

    assert found == set()


def test_requirements_are_pinned_by_hash_and_name_no_address() -> None:
    files = sorted((house.ROOT / "requirements").glob("*.txt"))
    assert files
    for path in files:
        text = path.read_text(encoding="utf-8")
        entries = re.split(r"\n(?=\S)", text.strip())
        assert [entry.split()[0] for entry in entries if "--hash=sha256:" not in entry] == [], path.name
        assert [entry.split()[0] for entry in entries if "==" not in entry.split()[0]] == [], path.name
        assert re.findall(r"https?|://|--index|--find-links|--trusted", text) == [], path.name
        assert path.with_suffix(".in").exists(), path.name


def test_nothing_is_left_for_later() -> None:
    assert [name for name in tracked_files() if UNFINISHED.search((house.ROOT / name).read_bytes())] == []


def test_every_file_has_its_place() -> None:
    assert sorted({name.split("/")[0] for name in tracked_files()} - LAYOUT) == []


@pytest.mark.parametrize(
    ("text", "promises"),
    [
        ("## E1 One transaction\n", {"E1"}),
        ("| **E10**, **W3** | yes |", {"E10", "W3"}),
        ("plain E2 is only spoken of", set()),
    ],
)
def test_a_promise_is_stated_in_a_heading_or_in_bold(text: str, promises: set[str]) -> None:
    assert house.promises_stated(text) == promises


def test_names_are_split_into_words() -> None:
    assert house.words("HTTPQueueReader") == {"http", "queue", "reader"}
    assert house.words("_claim_due") == {"claim", "due"}


def test_imports_are_found_in_both_forms() -> None:
    tree = ast.parse("import http.server\nfrom http import client, HTTPStatus")

    assert house.imports(tree) == {"http.server", "http", "http.client", "http.HTTPStatus"}


def test_a_write_is_found_through_the_whole_chain() -> None:
    tree = ast.parse("Effect.objects.using(alias).filter(id=1).update(name='x')\nEffect.objects.count()")

    assert list(house.writes(tree)) == ["Effect"]

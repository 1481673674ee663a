from pathlib import Path

import pytest

from orbit_django.contracts import load, read
from orbit_django.exceptions import ConfigurationError, ContractSyntaxError
from tests.contracts.texts import GREET, ORDER


def files(folder: Path, *texts: str) -> list[Path]:
    paths = [folder / f"{number}.orbit" for number in range(len(texts))]
    for path, text in zip(paths, texts, strict=True):
        path.write_text(text)
    return paths


def test_several_files(tmp_path: Path) -> None:
    catalog = load(files(tmp_path, GREET, ORDER))

    assert set(catalog.workflows) == {("Greet", "1.0.0"), ("Order", "1.0.0")}
    assert ("shop.stock", "2.0.0") in catalog.tasks


def test_a_workflow_may_use_a_task_of_a_later_file(tmp_path: Path) -> None:
    task, workflow = GREET.split("workflow")

    assert load(files(tmp_path, "workflow" + workflow, task)).workflow("Greet")


def test_the_version_of_the_own_file_is_meant(tmp_path: Path) -> None:
    newer = GREET.replace('"1.0.0"', '"2.0.0"')
    catalog = load(files(tmp_path, GREET, newer))

    assert catalog.versions_in_use("greeting.compose") == ["1.0.0", "2.0.0"]
    latest = catalog.workflow("Greet")
    assert latest is not None
    assert latest.version == "2.0.0"
    assert catalog.workflow("Greet", "1.0.0") is not None
    assert catalog.workflow("Greet", "3.0.0") is None


@pytest.mark.parametrize(
    ("versions", "meant"),
    [
        (("1.9.0", "1.10.0"), "1.10.0"),
        (("1.10.0", "1.9.0"), "1.10.0"),
        (("2", "1.9.9"), "2"),
        (("2.0.0", "1.0.0-b"), "1.0.0-b"),  # no order is known: the last one
    ],
)
def test_the_highest_version_is_meant_wherever_it_stands(versions: tuple[str, ...], meant: str) -> None:
    task, _, workflow = GREET.partition("workflow")
    text = "".join("workflow" + workflow.replace('"1.0.0"', f'"{version}"') for version in versions)
    latest = read(task + text).workflow("Greet")

    assert latest is not None
    assert latest.version == meant


def test_the_same_task_in_two_files_must_be_the_same(tmp_path: Path) -> None:
    task = GREET.split("workflow", maxsplit=1)[0]
    assert load(files(tmp_path, task, task)).tasks

    with pytest.raises(
        ContractSyntaxError,
        match=r"1\.orbit:1:6: task `greeting\.compose` 1\.0\.0 is declared otherwise at \S+0\.orbit:1:6$",
    ):
        load(files(tmp_path, task, task.replace("message", "text")))


def test_one_workflow_twice(tmp_path: Path) -> None:
    with pytest.raises(
        ContractSyntaxError, match=r"1\.orbit:6:10: workflow Greet 1\.0\.0 .* twice, first at \S+0\.orbit:6:10$"
    ):
        load(files(tmp_path, GREET, GREET))


@pytest.mark.parametrize("name", ["orbit.http.request", ""])
def test_names_that_no_task_may_have(name: str) -> None:
    with pytest.raises(ContractSyntaxError, match=r"^f:1:6: "):
        read(GREET.replace("greeting.compose", name), "f")


def test_a_task_twice_in_one_file() -> None:
    task = GREET.split("workflow", maxsplit=1)[0]

    with pytest.raises(
        ContractSyntaxError, match=r"f:6:6: task `greeting\.compose` is declared twice, first at f:1:6$"
    ):
        read(task + task, "f")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"no\.orbit: cannot be read: No such file"):
        load([tmp_path / "no.orbit"])


def test_a_file_that_declares_nothing_is_noted(tmp_path: Path) -> None:
    paths = files(tmp_path, GREET, "# nothing yet\n", "")

    assert load(paths).empty_files == [str(path) for path in paths[1:]]


def test_a_file_that_is_not_utf_8(tmp_path: Path) -> None:
    path = tmp_path / "latin.orbit"
    path.write_bytes(b"# one\n# gr\xfc\xdfe\n")

    with pytest.raises(ContractSyntaxError, match=r"latin\.orbit:2:5: this is not UTF-8 text"):
        load([path])


def test_the_hash_changes_with_the_meaning_only() -> None:
    def digest(text: str) -> str:
        return next(iter(read(text).workflows.values())).definition_hash

    assert digest(GREET) == digest("# a comment\n" + GREET.replace("    using", "        using"))
    assert digest(GREET) != digest(GREET.replace("30s", "31s"))
    assert digest(GREET) != digest(GREET.replace("message: String", "message: String, more: Int", 1))

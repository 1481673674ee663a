import tomllib

from tests import databases, matrix

CLASSIFIERS = tomllib.loads((databases.ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["classifiers"]


def test_every_python_that_the_package_is_for_is_tried() -> None:
    said = {line.rpartition(" ")[2] for line in CLASSIFIERS if line.startswith("Programming Language :: Python :: 3.")}
    assert {each.python for each in matrix.COMBINATIONS} == said


def test_arguments_are_pytests_and_a_python_that_is_missing_is_a_failure(monkeypatch, capsys) -> None:
    told = []
    monkeypatch.setattr(matrix, "run", lambda each, arguments: told.append((each.name, arguments)) or "not run: none")
    names = ["3.13-django-next", "3.11-django-5.2"]

    assert matrix.main(["--only", names[0], "tests/test_checks.py", "--only", names[1], "-x"]) == 1
    assert told == [(name, ["tests/test_checks.py", "-x"]) for name in reversed(names)]
    assert "3.13-django-next: not run: none" in capsys.readouterr().out


def test_an_interpreter_that_nobody_has_is_none() -> None:
    assert matrix.interpreter("2.99") is None

import os
import sys
from pathlib import Path

import pytest

from orbit_django.exceptions import ConfigurationError
from orbit_django.worker import interpreter


@pytest.fixture
def main_file(monkeypatch) -> str:
    """Return the path of the program that this process is said to run."""
    path = str(Path(__file__).resolve())
    monkeypatch.setattr(sys.modules["__main__"], "__file__", path, raising=False)
    return path


def test_the_arguments_of_the_process_are_its_program(monkeypatch, main_file: str) -> None:
    monkeypatch.setattr(sys, "argv", [main_file, "orbit_worker", "-p", "2"])
    assert interpreter.is_program([main_file, "orbit_worker", "-p", "2"])
    assert not interpreter.is_program([main_file, "orbit_worker"])


def test_arguments_that_are_another_programs_are_not(monkeypatch, main_file: str) -> None:
    assert not interpreter.is_program(["manage.py", "orbit_worker"])
    monkeypatch.setattr(sys, "argv", ["manage.py", "orbit_worker"])
    assert not interpreter.is_program(["manage.py", "orbit_worker"]), "the process runs another file"


def test_a_process_without_a_file_is_no_program(monkeypatch) -> None:
    monkeypatch.delattr(sys.modules["__main__"], "__file__", raising=False)
    assert not interpreter.is_program(sys.argv)


def test_options_become_a_command_line() -> None:
    options = {"concurrency": "2", "task": ["a.*", "b"], "exclude": [], "burst": True, "server": None, "check": False}
    line = interpreter.command("orbit_worker", options | {"worker_id": "-x", "drain_timeout": 0})
    assert line[0] == sys.executable
    assert line[line.index("-m") :] == [
        *("-m", "django", "orbit_worker", "--concurrency=2", "--task", "a.*", "b", "--burst"),
        *("--worker-id=-x", "--drain-timeout=0"),
    ]


def test_settings_without_a_module_are_a_mistake(settings) -> None:
    settings.SETTINGS_MODULE = None
    with pytest.raises(ConfigurationError, match=r"^other processes cannot find these settings: name them in DJANGO"):
        interpreter.command("orbit_worker", {})


def test_the_surroundings_lead_to_the_same_modules(monkeypatch) -> None:
    monkeypatch.setattr(sys, "path", ["", "/elsewhere"])
    found = interpreter.surroundings()
    assert found["PYTHONPATH"].split(os.pathsep) == [str(Path.cwd()), "/elsewhere"]
    assert found["DJANGO_SETTINGS_MODULE"] == "tests.settings"

"""How a project is started: interpreters, folders, and where its settings come from."""

import os
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from orbit_django.contracts import read
from orbit_django.embedded.server import EmbeddedRuntime
from tests import databases
from tests.projects import stories
from tests.projects.project import CONTRACTS

EVERY_MODULE = """
import importlib, pkgutil, django
django.setup()
import orbit_django
names = [each.name for each in pkgutil.walk_packages(orbit_django.__path__, "orbit_django.")]
for name in names:
    importlib.import_module(name)
print(len(names), "imported")
"""
MANAGE = """
import sys

from django.core.management import execute_from_command_line

execute_from_command_line(sys.argv)
"""


def test_every_module_is_imported_without_a_warning(project) -> None:
    said = project.with_admin().python("-c", EVERY_MODULE, options=("-bb", "-X", "dev"))
    assert int(said.split()[0]) > 150


def test_the_front_door_needs_no_settings(project) -> None:
    del project.environment["DJANGO_SETTINGS_MODULE"]
    said = project.python("-c", "import orbit_django; print(orbit_django.TaskContext, orbit_django.TaskError)")
    assert "TaskContext" in said


@pytest.mark.parametrize("option", ["-O", "-OO"])
def test_nothing_relies_on_assertions(project, option: str) -> None:
    project.play("check", "migrate", "work", "prune", options=(option,))


@pytest.fixture
def elsewhere(project) -> Callable[..., str]:
    """Return what runs the project's manage.py from another folder; only `--settings` says where its settings are."""
    del project.environment["DJANGO_SETTINGS_MODULE"]
    project.environment["PYTHONPATH"] = str(databases.ROOT)
    (project.folder / "settings.py").rename(project.folder / "chosen.py")
    manage = str(project.write("manage.py", MANAGE))
    folder = project.folder / "elsewhere"
    folder.mkdir()
    return lambda name, *more: project.python(manage, name, "--settings", "chosen", *more, cwd=folder)


def test_a_project_is_started_from_another_folder_with_settings_that_are_named(project, elsewhere) -> None:
    elsewhere("migrate", "--run-syncdb")
    assert "3 tasks for" in elsewhere("orbit_worker", "--check")
    with EmbeddedRuntime(read(CONTRACTS)) as runtime:
        with runtime.changing() as rules:
            rules.start("Order", {"key": "order-1"}, "order-1")
        elsewhere("orbit_worker", "--burst", "--processes", "2", "--server", runtime.url)
        with runtime.lock:
            assert runtime.runtime.state.execution("order-1").status == "COMPLETED"


def test_a_zipped_package_works(project) -> None:
    archive = project.folder / "packages.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for path in sorted((databases.ROOT / "orbit_django").rglob("*.py")):
            file.write(path, path.relative_to(databases.ROOT))
    project.write("tests/projects/stories.py", Path(stories.__file__).read_text(encoding="utf-8"))
    project.environment["PYTHONPATH"] = os.pathsep.join([str(archive), str(project.folder)])
    assert str(archive) in project.python("-c", "import orbit_django; print(orbit_django.__file__)")
    project.play("check", "migrate", "work", "prune")

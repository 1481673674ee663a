import sys
import traceback
from pathlib import Path
from textwrap import dedent

import pytest
from django.apps import apps
from django.test import override_settings

from orbit_django.tasks import Registry, registry

HANDLER = """
from orbit_django import task

@task("shop.pay", version="1.0.0")
def pay(input, ctx): ...
"""


@pytest.fixture(autouse=True)
def found(monkeypatch) -> Registry:
    """Return an empty registry."""
    monkeypatch.setattr(registry, "_tasks", {})
    monkeypatch.setattr(registry, "faults", [])
    return registry


@pytest.fixture
def folder(tmp_path: Path, monkeypatch) -> Path:
    """Return a folder whose packages can be imported, and are forgotten afterwards."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


@pytest.fixture
def app(folder: Path):
    """Return a function that writes an app; its files are given by name, a folder's with two underscores."""

    def write(name: str, **files: str) -> str:
        for file, text in ({"__init__": ""} | files).items():
            path = folder / name / (file.replace("__in_", "/") + ".py")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(dedent(text))
        return name

    return write


def install(*names: str) -> list[str]:
    """Start the project with these apps; return the names of the tasks that were found."""
    with override_settings(INSTALLED_APPS=["orbit_django", *names]):
        assert apps.ready
    return [task.contract.task_name for task in registry]


def test_a_module_is_found(app) -> None:
    assert install(app("first", tasks_orbit=HANDLER)) == ["shop.pay"]


def test_a_package_is_found(app) -> None:
    package = {"tasks_orbit__in___init__": "from second.tasks_orbit import money", "tasks_orbit__in_money": HANDLER}
    assert install(app("second", **package)) == ["shop.pay"]


def test_an_app_without_the_module_is_fine(app) -> None:
    assert install(app("third")) == []


def test_an_app_is_found_by_its_configuration_once(app, found: Registry) -> None:
    config = """
    from django.apps import AppConfig

    class Fourth(AppConfig):
        name = "fourth"
        label = "another"
    """
    app("fourth", apps=config, tasks_orbit=HANDLER)
    assert (install("fourth.apps.Fourth"), found.faults) == (["shop.pay"], [])


def test_an_app_inside_of_a_package_is_found(app) -> None:
    app("outer")
    assert install(app("outer/inner", tasks_orbit=HANDLER).replace("/", ".")) == ["shop.pay"]


def test_an_app_without_an_init_file_is_found(app, folder: Path) -> None:
    app("fifth", tasks_orbit=HANDLER)
    (folder / "fifth" / "__init__.py").unlink()
    assert install("fifth") == ["shop.pay"]


def test_a_module_may_use_the_models_of_every_app(app) -> None:
    app("sixth", tasks_orbit="from django.contrib.auth import get_user_model; get_user_model()" + HANDLER)
    assert install("sixth", "django.contrib.auth", "django.contrib.contenttypes") == ["shop.pay"]


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("import a_missing_package", ModuleNotFoundError, "a_missing_package"),
        ("import elsewhere.tasks_orbit", ModuleNotFoundError, "elsewhere"),
        ("from seventh import tasks_orbit_more", ImportError, "tasks_orbit_more"),
        ("undefined", NameError, "undefined"),
        ("def broken(:", SyntaxError, "invalid syntax"),
    ],
)
@pytest.mark.promise("W8")
def test_a_broken_module_raises_its_own_error(app, text: str, error: type[Exception], message: str) -> None:
    app("seventh", tasks_orbit=text)
    with pytest.raises(error, match=message) as caught:
        install("seventh")
    assert "tasks_orbit.py" in "".join(traceback.format_exception(caught.value))
    assert caught.value.__notes__ == [
        "orbit_django looks for handlers in seventh.tasks_orbit, which cannot be imported"
    ]


@pytest.mark.promise("W8")
def test_duplicates_and_reserved_names_do_not_stop_the_project(app, found: Registry) -> None:
    app("eighth", tasks_orbit=HANDLER)
    app("ninth", tasks_orbit=HANDLER + HANDLER.replace("shop.pay", "orbit.pay"))
    assert install("eighth", "ninth") == ["shop.pay"]
    duplicate, reserved = found.faults
    assert "eighth.tasks_orbit.pay:4 and ninth.tasks_orbit.pay:4" in duplicate
    assert "'orbit.pay' is reserved" in reserved


@pytest.mark.promise("W8")
def test_one_file_under_two_names_is_told_as_that(app, folder: Path, found: Registry, monkeypatch) -> None:
    app("project")
    app("project/tenth", tasks_orbit=HANDLER)
    monkeypatch.syspath_prepend(folder / "project")
    app("eleventh", tasks_orbit="import tenth.tasks_orbit, project.tenth.tasks_orbit")
    install("eleventh")
    (fault,) = found.faults
    assert "one file is imported under two names, tenth.tasks_orbit and project.tenth.tasks_orbit" in fault

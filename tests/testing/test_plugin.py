"""The plugin as a user has it: loaded by pytest in a project of its own, in a process of its own."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from uuid import uuid4

import pytest

from tests import databases

PLUGIN = "orbit_django.testing.plugin"
SETTINGS = """
from tests import databases
SECRET_KEY = "only-for-this-test"
USE_TZ = True
INSTALLED_APPS = ["django.contrib.auth", "django.contrib.contenttypes", "orbit_django", "tests.testapp", "till"]
DATABASES = {"default": databases.configuration(databases.chosen())}
DATABASES["default"]["TEST"] = {"NAME": %r}
ORBIT = {"CONTRACTS": [%r]}
"""
CONTRACT = """
task "till.charge" { version "1.0.0" input { amount: Int } output { amount: Int } }
workflow Pay {
  version "1.0.0" input { amount: Int } output { amount: Int }
  step charge { worker "till.charge" with { amount: input.amount } }
  return { amount: charge.amount }
}
"""
HANDLERS = """
from orbit_django import task
from tests.testapp.models import Charge

@task("till.charge", version="1.0.0")
def charge(input, ctx):
    Charge.objects.create(key=ctx.idempotency_key, amount=input["amount"])
    return {"amount": input["amount"]}

@task("till.careless", version="1.0.0", atomic=False)
def careless(input, ctx):
    return charge(input, ctx)
"""
TESTS = """
import threading
import pytest
from django.db import connection
from django.test import SimpleTestCase, TestCase
from orbit_django.client import Client, start_on_commit
from orbit_django.exceptions import ConfigurationError
from orbit_django.testing import OrbitTestCaseMixin
from tests.testapp.models import Charge

AMOUNT = {"amount": 3}

@pytest.mark.django_db
@pytest.mark.parametrize("number", range(4))
def test_a_task_inside_the_transaction_of_the_test(run_task, number):
    assert run_task("till.charge", AMOUNT).output == AMOUNT
    assert Charge.objects.count() == 1

@pytest.mark.django_db
@pytest.mark.parametrize("number", range(2))
def test_a_workflow_inside_the_transaction_of_the_test(run_until_idle, number):
    execution = start_on_commit("Pay", AMOUNT)
    assert run_until_idle() == 1
    client = Client()
    assert client.get(execution)["output"] == AMOUNT
    client.close()
    assert Charge.objects.count() == 1

@pytest.mark.django_db(transaction=True)
def test_exactly_once_passes_and_leaves_nothing(exactly_once):
    exactly_once("till.charge", AMOUNT, count=Charge.objects.count)
    assert [thread.name for thread in threading.enumerate() if thread.name.startswith("orbit-")] == []
    assert Charge.objects.count() == 1

@pytest.mark.django_db(transaction=True)
def test_exactly_once_catches(exactly_once):
    with pytest.raises(AssertionError, match="till.careless: the effect was doubled when its process ended"):
        exactly_once("till.careless", AMOUNT, count=Charge.objects.count)

@pytest.mark.django_db
def test_nothing_is_left_of_the_tests_before():
    assert Charge.objects.count() == 0

def test_the_runtime_needs_no_database(orbit_runtime):
    client = Client()
    assert client.workers() == []
    client.close()

@pytest.mark.parametrize("kit", ["run_task", "run_until_idle", "exactly_once"])
def test_without_a_database_one_sentence_says_what_is_needed(request, kit):
    more = {} if kit == "run_until_idle" else {"name": "till.charge"}
    with pytest.raises(ConfigurationError, match=f"^{kit} needs a test that may use the database 'default': mark it"):
        request.getfixturevalue(kit)(**more | ({"count": int} if kit == "exactly_once" else {}))

class KitTest(OrbitTestCaseMixin, SimpleTestCase):
    def test_a_class_without_a_database_is_told_so_too(self):
        with pytest.raises(ConfigurationError, match="or derive it from TestCase"):
            self.run_task("till.charge", AMOUNT)

class PayTest(OrbitTestCaseMixin, TestCase):
    def test_pay(self):
        start_on_commit("Pay", AMOUNT)
        assert self.run_until_idle() == 1
        assert self.run_task("till.charge", AMOUNT).is_success
        assert Charge.objects.count() == 2
"""
PLAIN = """
import sys

def test_django_is_not_even_imported():
    assert [name for name in sys.modules if name.partition(".")[0] == "django"] == []
"""
WITHOUT_SETTINGS = """
import pytest
from django.core.exceptions import ImproperlyConfigured

def test_something_else():
    from django.conf import settings
    assert not settings.configured

def test_a_fixture_says_what_is_missing(request):
    with pytest.raises(ImproperlyConfigured):
        request.getfixturevalue("orbit_runtime")
"""


def run_pytest(folder: Path, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environment |= {"PYTHONPATH": os.pathsep.join([str(folder), str(databases.ROOT)])} | more
    environment = {name: value for name, value in environment.items() if value}
    command = [sys.executable, "-m", "pytest", "-p", PLUGIN, "-q", "-W", "error", "-p", "no:cacheprovider", *arguments]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=100, check=False
    )


def passed(done: subprocess.CompletedProcess[str], count: int) -> None:
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(rf"\b{count} passed", done.stdout), done.stdout
    assert done.stderr == ""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n", encoding="utf-8")
    return tmp_path


@pytest.fixture
def project(folder: Path) -> Path:
    """Make a project with handlers, a contract and tests; its test database has a name of its own."""
    is_file = databases.chosen() == "sqlite"
    name = str(folder / "test.sqlite3") if is_file else f"{databases.run()}_kit_{uuid4().hex[:6]}"
    files = {
        "till/__init__.py": "",
        "till/tasks_orbit.py": HANDLERS,
        "pay.orbit": CONTRACT,
        "till_settings.py": SETTINGS % (name, str(folder / "pay.orbit")),
        "test_till.py": TESTS,
    }
    for path, text in files.items():
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    return folder


@pytest.mark.databases
@pytest.mark.timeout(240)
def test_a_project_uses_the_fixtures_and_keeps_its_database(project):
    runs = (["--reuse-db", "-k", "inside"], 6), (["--reuse-db"], 15), (["-k", "nothing_is_left"], 1)
    for arguments, count in runs:  # the last one drops it
        passed(run_pytest(project, *arguments, DJANGO_SETTINGS_MODULE="till_settings"), count)
    assert list(project.glob("*.sqlite3*")) == []


@pytest.mark.databases
@pytest.mark.timeout(240)
def test_a_project_runs_its_tests_two_at_a_time(project):
    passed(run_pytest(project, "-n", "2", DJANGO_SETTINGS_MODULE="till_settings"), 15)


def test_a_database_in_memory_will_do(project):
    settings = project / "till_settings.py"
    settings.write_text(settings.read_text(encoding="utf-8") + 'DATABASES["default"]["TEST"] = {}\n', encoding="utf-8")
    passed(run_pytest(project, DJANGO_SETTINGS_MODULE="till_settings", ORBIT_TEST_DB="sqlite"), 15)


@pytest.mark.databases
@pytest.mark.timeout(240)
def test_the_classes_of_unittest_run_without_pytest(project):
    (project / "test_till.py").rename(project / "all_tests.py")
    text = "from all_tests import PayTest\n"
    (project / "test_unit.py").write_text(text, encoding="utf-8")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(project), str(databases.ROOT)])}
    command = [
        sys.executable,
        "-W",
        "error",
        "-m",
        "django",
        "test",
        "--noinput",
        "--settings",
        "till_settings",
        "test_unit",
    ]
    done = subprocess.run(
        command, cwd=project, env=environment, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "Ran 1 test" in done.stderr


def test_projects_without_django_do_not_notice(folder):
    (folder / "test_plain.py").write_text(PLAIN, encoding="utf-8")
    done = run_pytest(folder, "-p", "no:django", "-p", "no:randomly", DJANGO_SETTINGS_MODULE="")
    passed(done, 1)


def test_projects_without_settings_get_a_clear_error_only_when_they_ask(folder):
    (folder / "test_plain.py").write_text(WITHOUT_SETTINGS, encoding="utf-8")
    passed(run_pytest(folder, "-p", "no:django", DJANGO_SETTINGS_MODULE=""), 2)


def test_pytest_finds_the_plugin_by_itself():
    declared = tomllib.loads((databases.ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert declared["project"]["entry-points"]["pytest11"] == {PLUGIN: PLUGIN}


def test_the_fixtures_are_those_of_the_page():
    from orbit_django.testing import plugin

    page = (databases.ROOT / "docs" / "how-to" / "testing.md").read_text(encoding="utf-8")
    fixtures = [name for name, value in vars(plugin).items() if type(value).__name__ == "FixtureFunctionDefinition"]
    assert sorted(fixtures) == ["exactly_once", "orbit_runtime", "run_task", "run_until_idle"]
    assert [name for name in fixtures if f"`{name}" not in page] == []

"""What is told of migrations that a project forgot: made but not applied, and not even made."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests import databases
from tests.management.test_orbit_worker import HANDLER, program

MODEL = "from django.db import models\n\n\nclass Book(models.Model):\n    title = models.TextField()\n"
USER = "from django.contrib.auth.models import AbstractUser\n\n\nclass User(AbstractUser):\n    pass\n"
KEY = 'models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")'
MIGRATION = f"""
from django.db import migrations, models
class Migration(migrations.Migration):
    initial = True
    operations = [migrations.CreateModel("Book", [("id", {KEY}), ("title", models.{{}})])]
"""
AND_USERS = """
INSTALLED_APPS = ["django.contrib.admin", "django.contrib.auth", "django.contrib.contenttypes", *INSTALLED_APPS]
AUTH_USER_MODEL = "only.User"
"""
COMMON = 'ROOT_URLCONF = "only.urls"\nDEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"\n'


def project(folder: Path, models: str, migration: str = "", settings: str = "") -> dict[str, str]:
    """Write a project whose app has models and a folder for migrations; return the environment of its commands."""
    environment = program(folder, HANDLER)
    with (folder / "only_settings.py").open("a", encoding="utf-8") as file:
        file.write(COMMON + settings)
    (folder / "only" / "urls.py").write_text("urlpatterns = []\n")
    (folder / "only" / "models.py").write_text(models)
    (folder / "only" / "migrations").mkdir()
    (folder / "only" / "migrations" / "__init__.py").touch()
    if migration:
        (folder / "only" / "migrations" / "0001_initial.py").write_text(migration)
    return environment


def run(environment: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "manage.py", *words]
    return subprocess.run(
        line, cwd=databases.ROOT, env=environment, capture_output=True, text=True, timeout=50, check=False
    )


@pytest.mark.parametrize(
    ("field", "applied", "said"),
    [
        ("TextField()", [], []),
        ("TextField()", ["orbit_django"], ["lacks 1 migration of only", "-> run manage.py migrate"]),
        ("IntegerField()", [], ["models of only have changed since", "-> run manage.py makemigrations only"]),
    ],
)
def test_what_the_project_did_not_migrate_is_told_and_keeps_nobody_from_starting(tmp_path, field, applied, said):
    environment = project(tmp_path, MODEL, MIGRATION.format(field))
    assert run(environment, "migrate", *applied).returncode == 0

    checked = run(environment, "orbit_worker", "--check")
    assert (checked.returncode, checked.stdout.endswith(": ready to start\n")) == (0, True)
    told = [line for line in checked.stderr.splitlines() if "migrat" in line]
    assert len(told) == bool(said)
    assert all(words in line for line in told for words in said)

    doctored = run(environment, "orbit_doctor").stdout
    found = [line for line in doctored.splitlines() if "migrat" in line and "is applied" not in line]
    assert len(found) == bool(said)
    assert all(words in line for line in found for words in said)


@pytest.mark.promise("W8")
def test_a_user_model_without_a_migration_is_one_line(tmp_path):
    environment = project(tmp_path, USER, settings=AND_USERS)
    advice = "run manage.py makemigrations only"
    line = f"the app 'only' has no migration yet, and other migrations need one: {advice}"

    for options in ((), ("--check",)):
        ended = run(environment, "orbit_worker", *options)
        assert (ended.returncode, ended.stderr) == (2, f"CommandError: {line}\n")
    doctored = run(environment, "orbit_doctor").stdout
    assert line.replace(": run", "  -> run") in doctored
    assert "please report" not in doctored

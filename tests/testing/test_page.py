"""What docs/how-to/testing.md shows is run, in the project of the README."""

from pathlib import Path

import pytest

from tests import databases
from tests.test_readme import BLOCK, SETTINGS, files
from tests.testing.test_plugin import passed, run_pytest

MAILERS = 'MAILERS = {"default": {"BACKEND": "django.core.mail.backends.locmem.EmailBackend"}}  # since Django 6.1\n'
PAGE = (databases.ROOT / "docs" / "how-to" / "testing.md").read_text(encoding="utf-8")


def blocks() -> list[str]:
    return [block[2] for block in BLOCK.finditer(PAGE) if block[1] == "python"]


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """Make the project of the README, with the blocks of the page as its one module of tests."""
    written = files()
    written["settings.py"] = SETTINGS + MAILERS + written["settings.py"]
    for name, text in {"library/__init__.py": "", **written, "test_lend.py": "\n\n".join(blocks())}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def test_the_tests_of_the_page_pass(library):
    text = "\n".join(blocks())
    passed(run_pytest(library, DJANGO_SETTINGS_MODULE="settings", ORBIT_TEST_DB="sqlite"), text.count("def test_"))


def test_the_message_of_the_page_is_the_one_that_is_given(library):
    handler = """
from django.core.mail import send_mail


@task("library.remind", version="1.0.0")
def remind(input: dict, ctx: TaskContext) -> dict:
    send_mail("due", "bring it back", None, ["ada@example.com"])
    return {}
"""
    tasks = library / "library" / "tasks_orbit.py"
    text = tasks.read_text(encoding="utf-8").partition('@task("library.remind"')[0]
    tasks.write_text(text + handler, encoding="utf-8")
    test = """
import pytest
from django.core import mail


@pytest.mark.django_db(transaction=True)
def test_it(exactly_once):
    exactly_once("library.remind", {}, count=lambda: len(mail.outbox))
"""
    (library / "test_lend.py").write_text(test, encoding="utf-8")
    done = run_pytest(library, DJANGO_SETTINGS_MODULE="settings", ORBIT_TEST_DB="sqlite")
    (told,) = [block[2] for block in BLOCK.finditer(PAGE) if block[2].startswith("library.remind")]

    assert done.returncode == 1
    assert " ".join(told.split()) in done.stdout
    assert "trial.py" not in done.stdout.partition("short test summary")[0]

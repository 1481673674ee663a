"""The recipes are played: their files make a project, and a worker process runs in it."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import django
import pytest

from orbit_django.contracts import read
from orbit_django.embedded.server import EmbeddedRuntime
from orbit_django.models import OutboxMessage
from tests import databases
from tests.test_readme import BLOCK, SETTINGS

PAGE = (databases.ROOT / "docs" / "how-to" / "recipes.md").read_text(encoding="utf-8")
FILE = re.compile(r"`((?:till/)?\w+\.py)`")
CONTRACT = """
task "till.charge" { version "1.0.0" input { amount: Int } output { charge: String } }
workflow Charge {
  version "1.0.0" input { amount: Int } output { charge: String }
  step charge { worker "till.charge" with { amount: input.amount } }
  return { charge: charge.charge }
}
"""
SENTRY = """
import json
CALLS = []
def init(**options):
    CALLS.append(options)
"""


def files() -> dict[str, list[str]]:
    """Return the Python blocks that follow the name of each file."""
    found: dict[str, list[str]] = {}
    before = 0
    for block in BLOCK.finditer(PAGE):
        names = FILE.findall(PAGE[before : block.start()])
        if block[1] == "python":
            found.setdefault(names[-1], []).append(block[2])
        before = block.end()
    return found


def test_each_block_belongs_to_a_file() -> None:
    found = {name: len(blocks) for name, blocks in files().items()}
    assert found == {
        "till/logs.py": 1, "settings.py": 3, "till/tracing.py": 1, "till/tasks_orbit.py": 1,
        "till/receivers.py": 1, "till/apps.py": 1,
    }  # fmt: skip
    for blocks in files().values():
        for block in blocks:
            compile(block, "recipes.md", "exec")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Write a project of the page's files; the package for Sentry is a double, the exporter of spans is left out."""
    written = files()
    logging_, sentry, _ = written.pop("settings.py")
    installed = 'INSTALLED_APPS = ["orbit_django", "till"]\nSENTRY_DSN = "https://key@sentry.example/1"\n'
    written["settings.py"] = [SETTINGS, installed, logging_, sentry]
    written["sentry_sdk.py"] = [SENTRY]
    written["till/__init__.py"] = [""]
    for name, blocks in written.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("\n".join(blocks), encoding="utf-8")
    return tmp_path


def worked(project: Path, *amounts: int) -> list[dict[str, Any]]:
    """Have a worker process do some charges; return the lines of its log."""
    path = os.pathsep.join([str(project), str(databases.ROOT)])
    clean = {name: value for name, value in os.environ.items() if not name.startswith("ORBIT_")}
    environment = clean | {"DJANGO_SETTINGS_MODULE": "settings", "PYTHONPATH": path}

    def manage(*arguments: str) -> str:
        command = [sys.executable, "-m", "django", *arguments]
        done = subprocess.run(command, cwd=project, env=environment, capture_output=True, timeout=50, check=False)
        assert done.returncode == 0, done.stderr.decode()
        return done.stderr.decode()

    manage("migrate", "--verbosity=0")
    with EmbeddedRuntime(read(CONTRACT)) as runtime:
        environment["ORBIT_SERVER"] = runtime.url
        for amount in amounts:
            with runtime.changing() as inside:
                inside.start("Charge", {"amount": amount}, f"e-{amount}")
        return [json.loads(line) for line in manage("orbit_worker", "--burst").splitlines()]


def test_the_log_is_json_and_receivers_and_spans_do_not_stand_in_the_way(project: Path) -> None:
    lines = worked(project, 5, 0)
    (charging,) = [line for line in lines if line["message"] == "charging" and line["amount"] == 5]
    assert {name: charging[name] for name in ("level", "execution", "step", "task", "attempt")} == {
        "level": "INFO", "execution": "e-5", "step": "charge", "task": "till.charge", "attempt": 1,
    }  # fmt: skip
    (failed,) = [line for line in lines if line["message"] == "a task failed"]
    assert (failed["level"], failed["code"], failed["execution"]) == ("ERROR", "UNHANDLED_EXCEPTION", "e-0")
    assert failed["traceback"].splitlines()[-1].startswith("ZeroDivisionError: ")
    heard = {line["execution"]: (line["outcome"], line["code"]) for line in lines if "has finished" in line["message"]}
    assert heard == {"e-5": ("complete", ""), "e-0": ("fail", "UNHANDLED_EXCEPTION")}


def run(block: str, **names: Any) -> dict[str, Any]:
    exec(compile(block, "recipes.md", "exec"), names)  # noqa: S102  (the page's own block)
    return names


def test_events_can_be_searched_by_task(monkeypatch) -> None:
    calls: list[dict[str, Any]] = []
    double = ModuleType("sentry_sdk")
    double.init = lambda **options: calls.append(options)
    monkeypatch.setitem(sys.modules, "sentry_sdk", double)
    names = run(files()["settings.py"][1], SENTRY_DSN="https://key@sentry.example/1")
    (options,) = calls
    assert options["include_local_variables"] is False
    event = options["before_send"]({"extra": {"task": "till.charge", "attempt": 2, "other": 1}}, {})
    assert event["tags"] == {"task": "till.charge", "attempt": "2"}
    assert names["with_tags"]({"message": "of somebody else"}, {})["tags"] == {}


def test_a_refused_result_is_mailed_unless_it_is_superseded(monkeypatch, mailoutbox, settings) -> None:
    settings.ADMINS = ["ada@till.example"] if django.VERSION >= (6,) else [("Ada", "ada@till.example")]
    block = files()["till/receivers.py"][0].replace("@receiver(", "@(lambda *_, **__: lambda function: function)(")
    double = ModuleType("till.tasks_orbit")
    double.charge = None
    monkeypatch.setitem(sys.modules, "till", ModuleType("till"))
    monkeypatch.setitem(sys.modules, "till.tasks_orbit", double)
    tell = run(block)["tell_the_admins"]
    message = OutboxMessage(execution_id="e-1")
    tell(sender=None, message=message, reason="duplicate result", is_superseded=True)
    assert mailoutbox == []
    tell(sender=None, message=message, reason="413 too large", is_superseded=False)
    (mail,) = mailoutbox
    assert mail.subject.endswith("Execution e-1: the runtime refused a result")
    assert mail.body == "413 too large"

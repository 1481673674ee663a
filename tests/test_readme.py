"""The story that the README tells is played: its files make a project, its commands run it."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from orbit_django.contracts import load, read
from orbit_django.embedded.server import EmbeddedRuntime
from orbit_django.embedded.views import executions_view
from tests import databases
from tests.processes import wait_for

README = (databases.ROOT / "README.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"`([\w/]+\.(?:py|orbit))`")
SETTINGS = """
from pathlib import Path
BASE_DIR = Path(__file__).resolve().parent
SECRET_KEY = "only-for-this-test"
INSTALLED_APPS = []
USE_TZ = True
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": BASE_DIR / "db.sqlite3"}}
"""
REMINDERS = """
task "library.remind" { version "1.0.0" input { member: String } output { note: String } }
workflow Remind {
  version "1.0.0" input { member: String } output { note: String }
  step remind { worker "library.remind" with { member: input.member } }
  return { note: remind.note }
}
"""
OUTSIDE = """
def send_mail(member, key):
    return f"mail to {member}"


def write_note(mail):
    return f"noted: {mail}"


"""
BORROW = """
import django
django.setup()
from django.test import RequestFactory
from django.urls import path
from library import views
route = ROUTE
assert route.resolve("borrow/").func is views.borrow
print(route.callback(RequestFactory().post("/borrow/", {"book": "Persuasion", "member": "Bo"})).content.decode())
"""


def files() -> dict[str, str]:
    """Return each block that follows the name of a file, the effects' block after what it needs."""
    found: dict[str, str] = {}
    before = 0
    for block in BLOCK.finditer(README):
        names = FILE.findall(README[before : block.start()])
        if names and block[2].lstrip().startswith(("task ", "from ", "INSTALLED_APPS")):
            found[names[-1]] = block[2]
        elif "library.remind" in block[2]:
            found["library/tasks_orbit.py"] += OUTSIDE + block[2]
        before = block.end()
    return found


class Project:
    """The project of the README, beside a runtime in this process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        written = files()
        written["settings.py"] = SETTINGS + written["settings.py"].replace('"SERVER": "http://127.0.0.1:7233", ', "")
        for name, text in {"library/__init__.py": "", "library/remind.orbit": REMINDERS, **written}.items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8")
        self.runtime = EmbeddedRuntime(
            [folder / "library" / "lend.orbit", folder / "library" / "remind.orbit"], grpc_port=0
        )
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("ORBIT_")}
        self.environment |= {"DJANGO_SETTINGS_MODULE": "settings"}
        self.environment |= {"PYTHONPATH": os.pathsep.join([str(folder), str(databases.ROOT)])}

    def run(self, *arguments: str) -> str:
        command = [sys.executable, *arguments]
        done = subprocess.run(
            command, cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=40, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def manage(self, *arguments: str) -> str:
        return self.run("-m", "django", *arguments)

    def output_of(self, execution_id: str) -> Any:
        """Wait until an execution has completed; return its output."""

        def look() -> Any:
            with self.runtime.lock:
                return next((e for e in executions_view(self.runtime.runtime) if e["id"] == execution_id), {})

        wait_for(lambda: look().get("status") == "COMPLETED", 20)
        return look()["output"]


@pytest.fixture(params=["http", "grpc"])
def project(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Project]:
    """Have the project beside a worker, over each binding: one setting says which."""
    made = Project(tmp_path)
    made.manage("makemigrations", "library")
    made.manage("migrate")
    with made.runtime as runtime, (tmp_path / "log").open("w") as log:
        made.environment["ORBIT_SERVER"] = runtime.url
        if request.param == "grpc":
            way = {"TRANSPORT": "grpc", "GRPC_TARGET": runtime.grpc_target}
            with (tmp_path / "settings.py").open("a") as settings:
                settings.write(f"\nORBIT |= {way!r}\n")
        command = [sys.executable, "-m", "django", "orbit_worker"]
        worker = subprocess.Popen(command, cwd=tmp_path, env=made.environment, stdout=log, stderr=log)
        try:
            yield made
        finally:
            worker.terminate()
            worker.wait(20)


def test_the_story_of_the_readme_can_be_followed(project: Project) -> None:
    (start,) = re.findall(r"python manage\.py orbit_start Lend --input '(.*)' --wait", README)
    printed = project.manage("orbit_start", "Lend", "--input", start, "--wait").split("\n", 2)
    assert printed[1] == "COMPLETED"
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", json.loads(printed[2])["due"])

    (route,) = re.findall(r"`(path\(.*?\))` in the project's `urls.py`", README)
    assert "due" in project.output_of(project.run("-c", BORROW.replace("ROUTE", route)).strip())

    remind = project.manage("orbit_start", "Remind", "--input", '{"member": "Ada"}', "--wait")
    assert '"note": "noted: mail to Ada"' in remind


def test_the_contract_and_the_settings_are_those_of_the_story(tmp_path: Path) -> None:
    written = files()
    assert sorted(written) == [
        "library/lend.orbit", "library/models.py", "library/tasks_orbit.py", "library/views.py", "settings.py"
    ]  # fmt: skip
    (tmp_path / "lend.orbit").write_text(written["library/lend.orbit"], encoding="utf-8")
    assert set(load([tmp_path / "lend.orbit"]).workflows) == {("Lend", "1.0.0")}
    assert '"SERVER": "http://127.0.0.1:7233"' in written["settings.py"]


def test_the_example_of_the_language_is_one() -> None:
    page = (databases.ROOT / "docs" / "reference" / "contracts.md").read_text(encoding="utf-8")
    (example,) = [block[2] for block in BLOCK.finditer(page) if block[1] == "orbit"]
    (workflow,) = read(example).workflows.values()
    assert [step.name for step in workflow.steps] == ["price", "charge"]


def test_what_the_readme_links_to_is_there() -> None:
    links = re.findall(r"\]\((?!http)([^)#]+)", README)
    assert [link for link in links if not (databases.ROOT / link).exists()] == []


def test_the_readme_names_everything_that_a_context_has() -> None:
    from orbit_django import TaskContext

    public = {name for name in vars(TaskContext) if not name.startswith("_")} | {"worker_id", "cancelled", "logger"}
    assert sorted(name for name in public if f"`{name}" not in README) == []


def test_the_readme_stays_short() -> None:
    assert len(README.splitlines()) < 180

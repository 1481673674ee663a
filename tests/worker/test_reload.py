"""A worker that starts afresh when a file changes, as a real process on a project of its own."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from itertools import count
from pathlib import Path

import pytest
from django.utils import autoreload

from orbit_django.contracts import read
from orbit_django.embedded.server import EmbeddedRuntime
from orbit_django.worker.reload import Watch
from tests.processes import ListeningFaults, Stage, WorkerProcess, wait_for
from tests.worker.staging import TASK
from tests.worker.test_processes import is_alive, pids

HANDLER = """
from orbit_django import task
from edited.words import WORD

@task("test.say", version="1.0.0", atomic=False)
def say(input, ctx):
    return {"charge": WORD}
"""
SLOW = HANDLER.replace('    return {"charge": WORD}', "    ctx.sleep(40)\n    ctx.raise_if_cancelled()")
AGAIN = "it is started again after the next change"


class Project(Stage):
    """A stage whose workers serve an app that a test edits."""

    def __init__(self, runtime: EmbeddedRuntime, environment: dict[str, str], folder: Path) -> None:
        path = os.pathsep.join([str(folder), environment["PYTHONPATH"]])
        added = {"PYTHONPATH": path, "DJANGO_SETTINGS_MODULE": "edited_settings", "PYTHONDONTWRITEBYTECODE": "1"}
        super().__init__(runtime, environment | added, folder)
        self.app = folder / "edited"
        self.app.mkdir()
        (folder / "edited_settings.py").write_text(
            'from tests.settings import *\nINSTALLED_APPS = [*INSTALLED_APPS, "edited"]\n'
        )
        self.edit("__init__", "")
        self.edit("words", "WORD = 'zero'\n")
        self.edit("tasks_orbit", HANDLER)
        self._numbers = count(1)

    def edit(self, module: str, text: str) -> None:
        """Write a module as editors do: beside it, and then in its place."""
        draft = self.app / f"{module}.draft"
        draft.write_text(text)
        draft.replace(self.app / f"{module}.py")

    def say(self) -> str:
        """Return what a worker says now."""
        name = f"say-{next(self._numbers)}"
        self.start(name, "Say")
        return str(self.end_of(name)["output"]["charge"])

    def reloading(self, *arguments: str) -> WorkerProcess:
        worker = self.worker("--reload", *arguments)
        assert self.say() == "zero", worker.log()
        return worker


@pytest.fixture
def project(child_environment: dict[str, str], tmp_path: Path) -> Iterator[Project]:
    runtime = EmbeddedRuntime(
        read(TASK.format(task="say", name="Say")), session_timeout_ms=30_000, faults=ListeningFaults()
    )
    with runtime, closing(Project(runtime, child_environment, tmp_path)) as project:
        yield project


@pytest.mark.promise("W1")
def test_an_edit_is_served_and_ctrl_c_ends_everything(project: Project) -> None:
    worker = project.reloading()
    project.edit("words", "WORD = 'one'\n")
    wait_for(lambda: len(project.faults.times("register")) == 2, 20)

    assert project.say() == "one"
    assert len(project.faults.times("unregister")) == 1, "the old process gave its session back"
    worker.signal(signal.SIGINT)
    assert worker.exit_code() == 0
    assert [pid for pid in pids(worker) if is_alive(pid)] == []
    assert "Traceback" not in worker.log()


def test_edits_that_come_while_it_starts_are_not_missed(project: Project) -> None:
    worker = project.reloading()
    for number in range(4):
        before = len(pids(worker))
        project.edit("words", f"WORD = 'first-{number}'\n")
        wait_for(lambda before=before: len(pids(worker)) > before, 20)
        project.edit("words", f"WORD = 'second-{number}'\n")
    for number in range(10):
        project.edit("words", f"WORD = 'third-{number}'\n")
        threading.Event().wait(0.13)  # as fast as nobody types

    wait_for(lambda: project.say() == "third-9", 30)


def test_a_broken_edit_is_shown_and_the_next_one_tried(project: Project) -> None:
    worker = project.reloading()
    project.edit("tasks_orbit", HANDLER + "\ndef broken(:\n")
    wait_for(lambda: AGAIN in worker.log(), 20)
    assert "SyntaxError" in worker.log()
    assert worker.process.poll() is None
    assert not is_alive(pids(worker)[-1])
    project.edit("tasks_orbit", HANDLER.replace("WORD}", "WORD + '!'}"))

    assert project.say() == "zero!"


def test_a_module_that_was_missing_is_noticed(project: Project) -> None:
    worker = project.reloading()
    project.edit("tasks_orbit", HANDLER.replace("edited.words", "edited.others"))
    wait_for(lambda: AGAIN in worker.log(), 20)
    assert "No module named 'edited.others'" in worker.log()
    project.edit("others", "WORD = 'other'\n")

    assert project.say() == "other"


@pytest.mark.promise("W8")
def test_a_mistake_in_an_edit_is_one_line_and_the_next_edit_tried(project: Project) -> None:
    worker = project.reloading()
    project.edit("tasks_orbit", HANDLER + HANDLER.replace("def say", "def say_again"))
    wait_for(lambda: AGAIN in worker.log(), 20)
    (line,) = [line for line in worker.log().splitlines() if AGAIN in line]
    assert "error=" in line
    assert "test.say 1.0.0" in line
    project.edit("tasks_orbit", HANDLER)

    assert project.say() == "zero"


@pytest.mark.promise("W8")
def test_a_mistake_at_the_start_is_one_line(project: Project) -> None:
    project.edit("tasks_orbit", HANDLER + HANDLER.replace("def say", "def say_again"))
    worker = project.worker("--reload")

    assert worker.exit_code(20) == 2
    assert len(worker.log().splitlines()) == 1


@pytest.mark.promise("W5")
def test_a_task_that_was_running_comes_again_at_once(project: Project) -> None:
    worker = project.reloading()
    project.edit("tasks_orbit", SLOW)
    wait_for(lambda: len(project.faults.times("register")) == 2, 20)
    project.start("slow", "Say")
    wait_for(lambda: project.events("slow", "StepDispatched"), 20)
    edited_at = time.monotonic()
    project.edit("tasks_orbit", HANDLER)

    assert project.end_of("slow")["status"] == "COMPLETED"
    assert time.monotonic() - edited_at < 15, "long before the session would time out"
    assert len(project.events("slow", "StepDispatched")) == 2
    assert project.events("slow", "StepAttemptFailed") == []
    worker.signal()
    assert worker.exit_code() == 0


class Looks:
    """A watch of one folder, and what it reported."""

    def __init__(self, folder: Path) -> None:
        self.found: list[str] = []
        self.watch = Watch(lambda file: self.found.append(file.name))
        self.watch._reloader.directory_globs.clear()
        self.watch._reloader.watch_dir(folder, "*")

    def look(self) -> list[str]:
        self.found.clear()
        self.watch.step()
        return sorted(self.found)


@pytest.fixture
def looks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Looks:
    monkeypatch.setattr(autoreload, "iter_all_python_module_files", frozenset)
    for name in ("a.py", "b.html"):
        write(tmp_path / name, 100)
    return Looks(tmp_path)


def write(path: Path, seconds: float) -> None:
    path.touch()
    os.utime(path, (seconds, seconds))


def test_what_was_there_before_is_no_change(looks: Looks) -> None:
    assert [looks.look(), looks.look()] == [[], []]
    assert looks.watch.is_unchanged


@pytest.mark.parametrize("seconds", [101, 99])
def test_a_file_with_another_time_has_changed_once(looks: Looks, tmp_path: Path, seconds: float) -> None:
    looks.look()
    write(tmp_path / "a.py", seconds)
    write(tmp_path / "b.html", seconds)
    assert [looks.look(), looks.look()] == [["a.py", "b.html"], []]
    assert not looks.watch.is_unchanged


def test_a_new_module_is_a_change_and_no_other_new_file(looks: Looks, tmp_path: Path) -> None:
    looks.look()
    write(tmp_path / "c.py", 101)
    write(tmp_path / "old.py", 50)
    write(tmp_path / ".b.html.swp", 101)
    assert looks.look() == ["c.py"]


def test_files_that_only_the_workers_process_has_loaded_are_watched(looks: Looks, tmp_path: Path) -> None:
    far = tmp_path / "far"
    far.mkdir()
    write(far / "lazy.py", 90)
    looks.look()
    looks.watch.add(frozenset({far / "lazy.py"}))
    assert looks.look() == []
    write(far / "lazy.py", 110)
    assert looks.look() == ["lazy.py"]


def test_those_who_listen_to_django_hear_of_it(looks: Looks, tmp_path: Path) -> None:
    heard: list[Path] = []

    def listen(sender: object, file_path: Path, **_: object) -> None:
        heard.append(file_path)
        raise RuntimeError("a listener must not end the watch")

    looks.look()
    autoreload.file_changed.connect(listen)
    try:
        write(tmp_path / "a.py", 101)
        assert looks.look() == ["a.py"]
    finally:
        autoreload.file_changed.disconnect(listen)
    assert heard == [tmp_path / "a.py"]

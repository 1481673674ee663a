"""The command as a real process: a runtime, a worker and Django's server, started and ended together."""

import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from orbit_django import conf
from orbit_django.client import Client
from tests.processes import wait_for
from tests.worker.staging import TASK

pytestmark = pytest.mark.timeout(120)

HANDLER = """
from orbit_django import task

@task("test.say", version="1.0.0")
def say(input, ctx):
    return {"charge": "WORD"}
"""


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


class Development:
    """One `manage.py orbit_dev` in a project of its own."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.folder = folder
        self.port, self.web = free_port(), free_port()
        (folder / "till").mkdir()
        (folder / "till" / "__init__.py").touch()
        self.say("zero")
        (folder / "say.orbit").write_text(TASK.format(task="say", name="Say"))
        (folder / "dev_settings.py").write_text(
            'from tests.settings import *\nINSTALLED_APPS = ["orbit_django", "till"]\nMIDDLEWARE = []\n'
            f'ROOT_URLCONF = "till.urls"\nORBIT = {{"CONTRACTS": [{str(folder / "say.orbit")!r}]}}\n'
        )
        (folder / "till" / "urls.py").write_text(
            "from django.http import HttpResponse\nfrom django.urls import path\n"
            'urlpatterns = [path("", lambda request: HttpResponse("at your service"))]\n'
        )
        path = os.pathsep.join([str(folder), environment["PYTHONPATH"]])
        clean = {name: value for name, value in environment.items() if not name.startswith("ORBIT_S")}
        self._environment = clean | {"PYTHONPATH": path, "DJANGO_SETTINGS_MODULE": "dev_settings"}
        self._log = folder / "log"

    def say(self, word: str) -> None:
        draft = self.folder / "draft"
        draft.write_text(HANDLER.replace("WORD", word))
        draft.replace(self.folder / "till" / "tasks_orbit.py")

    def begin(self, *arguments: str) -> None:
        command = [sys.executable, "-m", "django", "orbit_dev", f"--port={self.port}", f"--addrport={self.web}"]
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [*command, *arguments], cwd=self.folder, env=self._environment, stdout=log, stderr=log
            )

    def log(self) -> str:
        return self._log.read_text(encoding="utf-8")

    def lines(self, name: str) -> list[str]:
        return [line.partition("| ")[2] for line in self.log().splitlines() if line.startswith(name)]

    def said(self, settings) -> str:
        """Return what the handler says now."""
        settings.ORBIT = {"SERVER": f"http://127.0.0.1:{self.port}"}
        client = Client()
        try:
            view = client.wait(client.start("Say", {"seconds": 0.0}), timeout_seconds=30)
        finally:
            client.close()
        assert view["status"] == "COMPLETED", self.log()
        return str(view["output"]["charge"])

    def page(self) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.web}/", timeout=5) as answer:
            return str(answer.read().decode())

    def is_answering(self) -> bool:
        try:
            return bool(self.page())
        except urllib.error.URLError:
            return False

    def family(self) -> set[int]:
        """Return every process that descends from the command, itself included."""
        found, waiting = set(), [self.process.pid]
        while waiting:
            pid = waiting.pop()
            found.add(pid)
            for children in Path(f"/proc/{pid}/task").glob("*/children"):
                waiting += [int(word) for word in children.read_text().split()]
        return found

    def are_gone(self, pids: set[int]) -> bool:
        return not any(Path(f"/proc/{pid}").exists() for pid in pids)


@pytest.fixture
def development(child_environment: dict[str, str], tmp_path: Path) -> Iterator[Development]:
    made = Development(tmp_path, child_environment)
    yield made
    if made.process.poll() is None:
        made.process.terminate()
        made.process.wait(30)


def test_all_of_it_works_keeps_up_with_edits_and_ends_with_one_ctrl_c(settings, development: Development) -> None:
    development.begin()
    wait_for(lambda: any("a worker registered" in line for line in development.lines("runtime")), 40)
    wait_for(development.is_answering, 40)
    assert development.page() == "at your service"
    assert development.said(settings) == "zero"
    development.say("one")
    wait_for(lambda: development.said(settings) == "one", 30)

    family = development.family()
    assert len(family) >= 7, "the command, runtime, supervisor, worker, two of the server, the guard"
    development.process.send_signal(signal.SIGINT)
    assert development.process.wait(30) == 0, development.log()
    assert development.are_gone(family)
    assert development.lines("orbit_dev")[-1] == "stopping; tasks that run may finish, once more stops at once"
    assert "the worker ended exit_code=0" in development.log()
    assert "\x1b[" not in development.log(), "a file is no terminal"


def test_the_server_can_be_left_out_and_one_that_dies_ends_the_rest(development: Development) -> None:
    development.begin("--no-server")
    wait_for(lambda: any("a worker registered" in line for line in development.lines("runtime")), 40)
    assert not development.is_answering()
    family = development.family()
    (runtime,) = [pid for pid in family if b"orbit_runtime" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    os.kill(runtime, signal.SIGKILL)
    assert development.process.wait(40) == 1
    assert development.lines("orbit_dev") == ["runtime ended with code -9; the rest is ended as well"]
    assert development.are_gone(family)


def test_a_port_that_is_taken_is_told_and_nothing_is_left(development: Development) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", development.port))
        taken.listen()
        development.begin("--no-server")
        assert development.process.wait(40) == 1
    assert any(str(development.port) in line for line in development.lines("runtime")), development.log()
    assert development.lines("orbit_dev") == ["runtime ended with code 2; the rest is ended as well"]


def test_a_port_of_the_server_that_is_taken_is_told_with_its_option(development: Development) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", development.web))
        taken.listen()
        development.begin()
        assert development.process.wait(40) == 1
    told = f"Django's server takes another port by --addrport, here {development.web}"
    assert development.lines("orbit_dev") == [told, "web ended with code 1; the rest is ended as well"]


@pytest.mark.parametrize(
    ("orbit", "arguments", "text"),
    [
        ({"SERVER": "https://orbit.example"}, [], "SERVER is https://orbit.example; orbit_dev runs a runtime on this"),
        ({}, ["--port=70000"], "--port: expected a number from 1 to 65535, found 70000"),
        ({"SERVER": "nonsense"}, [], "SERVER: 'nonsense' is no URL"),
    ],
)
def test_a_mistake_is_one_line(settings, monkeypatch, orbit: dict[str, str], arguments: list[str], text: str) -> None:
    for name in conf.FROM_ENVIRONMENT:
        monkeypatch.delenv(f"ORBIT_{name}", raising=False)
    settings.ORBIT = orbit
    with pytest.raises(CommandError, match=text) as caught:
        call_command("orbit_dev", *arguments)
    assert caught.value.returncode == 2

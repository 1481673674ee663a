"""A worker in a container: it is the first process there, or a shell is, and whoever stops it signals that one."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from orbit_django.worker.stops import deaf_shell
from tests.processes import Stage, wait_for
from tests.worker.staging import begun

CONTAINER = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
COMMAND = f"{sys.executable} -m django orbit_worker --task 'test.*' --concurrency 1"
DEAF = "a shell is process 1"


def may_unshare() -> bool:
    unshare = shutil.which("unshare")
    return bool(unshare) and subprocess.run([*CONTAINER, "true"], capture_output=True, check=False).returncode == 0


pytestmark = [
    pytest.mark.promise("W5"),
    pytest.mark.skipif(not may_unshare(), reason="process namespaces take a privilege that is missing here"),
]


class Container:
    """A process namespace with one command in it."""

    def __init__(self, stage: Stage, *command: str, log: Path) -> None:
        self._log = log
        with log.open("wb") as file:
            line = [*CONTAINER, *command]
            self.process = subprocess.Popen(line, env=stage.environment, stdout=file, stderr=file)
        wait_for(lambda: stage.faults.times("poll"), 30)

    def log(self) -> str:
        return self._log.read_text(encoding="utf-8")

    def signal_first(self) -> None:
        """Do as an orchestrator does: send SIGTERM to the first process, and to no other."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        os.kill(int(children[0]), signal.SIGTERM)


WHOLE = {
    "exec form": [sys.executable, "-m", "django", "orbit_worker", "--task", "test.*", "--concurrency", "1"],
    "dash with exec": ["dash", "-c", f"cd / && exec {COMMAND}"],
    "bash with exec": ["bash", "-c", f"exec {COMMAND}"],
    "bash": ["bash", "-c", COMMAND],
}


@pytest.mark.parametrize("command", WHOLE.values(), ids=WHOLE.keys())
def test_the_first_process_ends_in_order(stage: Stage, tmp_path: Path, command: list[str]) -> None:
    if shutil.which(command[0]) is None:
        pytest.skip(f"there is no {command[0]} here")
    container = Container(stage, *command, log=tmp_path / "log")
    stage.start("running", seconds=0.7)
    begun(stage)
    container.signal_first()

    assert container.process.wait(15) == 0, container.log()
    assert stage.view("running")["status"] == "COMPLETED"
    assert stage.faults.calls[-1].name == "unregister"
    assert DEAF not in container.log()


def test_under_a_shell_that_stays_the_worker_says_that_nobody_will_stop_it(stage: Stage, tmp_path: Path) -> None:
    container = Container(stage, "bash", "-c", f"{COMMAND}; true", log=tmp_path / "log")
    try:
        assert DEAF in container.log()
        assert "shell=bash" in container.log()
        container.signal_first()
        with pytest.raises(subprocess.TimeoutExpired):
            container.process.wait(1.5)
    finally:
        container.process.kill()
        container.process.wait(10)


def test_a_process_that_is_nobodys_child_of_a_shell_says_nothing(tmp_path: Path) -> None:
    first = tmp_path / "comm"
    first.write_text("bash\n")
    assert deaf_shell(first) == "", "the parent of this process is not the first one"

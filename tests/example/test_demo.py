import subprocess
import sys

import pytest

from tests import databases

DEMO = [sys.executable, "-m", "example_project.demo"]


def play(folder, *arguments):
    command = [*DEMO, "--folder", str(folder), *arguments]
    return subprocess.run(command, cwd=databases.ROOT, capture_output=True, text=True, timeout=90, check=False)


@pytest.mark.timeout(100)
@pytest.mark.promise("E1", "E2", "D1")
def test_a_few_orders_survive_a_kill_with_every_effect_once(tmp_path):
    run = play(tmp_path / "demo", "--orders", "12", "--kills", "1")
    assert run.returncode == 0, run.stdout + run.stderr
    assert "every effect happened exactly once" in run.stdout
    assert "waiting for what killed workers held (up to 15 s)" in run.stdout
    assert "manage.py runserver" in run.stdout


def test_a_folder_that_the_demo_did_not_make_is_left_alone(tmp_path):
    (tmp_path / "precious.txt").write_text("mine", encoding="utf-8")
    run = play(tmp_path)
    assert run.returncode == 1
    assert "was not made by the demo" in run.stderr
    assert "Traceback" not in run.stderr
    assert (tmp_path / "precious.txt").exists()


def test_more_orders_than_there_are_is_said_in_one_line(tmp_path):
    run = play(tmp_path, "--orders", "100000")
    assert run.returncode == 1
    assert "100000 were asked for" in run.stderr
    assert "Traceback" not in run.stderr

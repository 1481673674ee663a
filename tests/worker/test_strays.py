"""What the first process of a container is left by others."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from orbit_django.worker.processes import reap_strays

STRAY = """
import ctypes, os, subprocess, sys, time
from pathlib import Path
sys.path.insert(0, {root!r})
from orbit_django.worker.processes import reap_strays
me = str(os.getpid())
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # be handed what children leave behind, as the first process of a system is
os.getpid = lambda: 1
own = subprocess.Popen(["sleep", "0.1"])
subprocess.run(["sh", "-c", "sleep 0.1 & sleep 0.1 &"])
def zombies():
    stats = [path.read_text().rsplit(")", 1)[1].split() for path in Path("/proc").glob("[0-9]*/stat")]
    return sum(state == "Z" for state, parent, *_ in stats if parent == me)
while zombies() < 3:
    time.sleep(0.02)
reap_strays({{own.pid}})
print(own.wait())
reap_strays(set())
print(zombies())
"""


@pytest.mark.promise("W1")
def test_the_first_process_of_a_container_takes_in_what_is_left_to_it() -> None:
    script = STRAY.format(root=str(Path(__file__).resolve().parents[2]))
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=30, check=False)
    assert ended.stdout.split() == ["0", "0"], ended.stderr


def test_any_other_process_leaves_strays_alone() -> None:
    with subprocess.Popen(["true"]) as process:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        reap_strays(set())
        assert process.wait() == 0

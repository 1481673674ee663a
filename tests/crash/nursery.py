"""A process that has everything loaded and forks workers from itself, so that a new one is there at once.

`python -m tests.crash.nursery` reads one JSON object per line: arguments, environment, log; it answers each with the
number of the new process. Its children end with it.
"""

import json
import os
import random
import signal
import subprocess
import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from tests.processes import wait_for


class Nursery:
    """The parent's side; usable as a context manager."""

    def __init__(self, environment: dict[str, str]) -> None:
        command = [sys.executable, "-m", "tests.crash.nursery"]
        self._process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __enter__(self) -> "Nursery":
        return self

    def __exit__(self, *error: object) -> None:
        self._process.communicate(timeout=20)

    def hatch(self, arguments: list[str], environment: dict[str, str], log: Path) -> int:
        """Start a worker; return its process number."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        asked = {"arguments": arguments, "environment": environment, "log": str(log)}
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())


def end(process: int) -> None:
    """Kill -9 a process of the nursery, and wait until it is gone."""
    with suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)
        wait_for(lambda: not is_alive(process))


def is_alive(process: int) -> bool:
    """Say whether a process is there."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def breed() -> None:
    """Fork what is asked for, until the parent closes its side."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the children
    children = []
    for line in sys.stdin:
        asked = json.loads(line)
        child = os.fork()
        if child == 0:
            become(asked)
        children.append(child)
        print(child, flush=True)
    for child in children:
        end(child)


def become(asked: dict[str, Any]) -> NoReturn:
    """Be a worker until it ends."""
    from django.core.management import call_command

    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    log = os.open(asked["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for old, new in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(old, new)
    os.environ.update(asked["environment"])
    random.seed()
    code = 1
    try:
        call_command("orbit_worker", *asked["arguments"])
        code = 0
    finally:
        os._exit(code)


if __name__ == "__main__":
    import django

    django.setup()
    for module in ("orbit_django.management.commands.orbit_worker", "orbit_django.transports.http"):
        import_module(module)
    breed()

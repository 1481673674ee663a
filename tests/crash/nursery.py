"""A process that has everything loaded and forks workers from itself, so that a new one is there at once.

`python -m tests.crash.nursery` reads one JSON object per line and answers each with one number. Only this process
signals its children, and only those that it has not waited for: their numbers cannot belong to anybody else by now.
"""

import json
import os
import random
import signal
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

MORE = "CRASH_MORE"  # keys of ORBIT as JSON, for one worker


class Nursery:
    """The other side of that process; usable as a context manager."""

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
        return self._ask(arguments=arguments, environment=environment, log=str(log))

    def send(self, process: int, number: int) -> bool:
        """Send a signal to a worker; return whether it was there. After SIGKILL it is gone."""
        return bool(self._ask(process=process, signal=number))

    def is_alive(self, process: int) -> bool:
        """Say whether a worker has not ended."""
        return self.send(process, 0)

    def _ask(self, **asked: Any) -> int:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())


def breed() -> None:
    """Do what is asked, until the other side closes; the children end with this process."""
    children: set[int] = set()
    for line in sys.stdin:
        asked = json.loads(line)
        if "signal" in asked:
            answer = int(send(children, asked["process"], asked["signal"]))
        else:
            answer = os.fork()
            if answer == 0:
                become(asked)
            children.add(answer)
        print(answer, flush=True)
    for child in tuple(children):
        send(children, child, signal.SIGKILL)


def send(children: set[int], child: int, number: int) -> bool:
    """Signal a child that was not waited for yet; forget it when it has ended."""
    if child in children and os.waitpid(child, os.WNOHANG)[0]:
        children.remove(child)
    if child not in children:
        return False
    os.kill(child, number)
    if number == signal.SIGKILL:
        os.waitpid(child, 0)
        children.remove(child)
    return True


def become(asked: dict[str, Any]) -> NoReturn:
    """Be a worker until it ends."""
    from django.conf import settings
    from django.core.management import call_command

    log = os.open(asked["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for old, new in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(old, new)
    os.environ.update(asked["environment"])
    settings.ORBIT = settings.ORBIT | json.loads(os.environ.get(MORE, "{}"))
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

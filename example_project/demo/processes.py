"""The demo's players: child processes that are started, killed and stopped, each by its own process id."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Self

from example_project.demo import DemoError
from example_project.demo.scene import PROJECT, SESSION_SECONDS, Scene

START_SECONDS = 20.0
STOP_SECONDS = 15.0
MISHAPS = 20  # how many tasks are handed out twice, and how many answers get lost


class Child:
    """A management command in a process of its own, with its output in a log file; stopped at the end of ``with``."""

    def __init__(self, log: Path, *command: str) -> None:
        self.log = log
        self.arguments = command
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start the command; the environment is this process's own."""
        arguments = [sys.executable, "-m", "django", *self.arguments]
        with self.log.open("ab") as output:
            # Its own session: a Ctrl-C in the terminal reaches the demo alone, which then ends its children in order.
            self._process = subprocess.Popen(
                arguments, cwd=PROJECT, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
            )

    def check(self) -> None:
        """Raise DemoError if the process has ended by itself."""
        if self._process is not None and (code := self._process.poll()) is not None:
            raise DemoError(f"{self.arguments[0]} ended with code {code}. Its last lines:\n{self.tail()}")

    def kill(self) -> None:
        """End the process as a power cut would: kill -9."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def stop(self) -> None:
        """Ask the process to end, and kill it when it takes too long."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            pass
        finally:
            self.kill()  # also when a second Ctrl-C cuts the wait short; does nothing to a process that has ended

    def tail(self, lines: int = 15) -> str:
        """Return the last lines of the log, indented."""
        text = self.log.read_text(encoding="utf-8", errors="replace") if self.log.exists() else ""
        return "\n".join(f"    {line}" for line in text.splitlines()[-lines:]) or "    (nothing)"


def runtime(scene: Scene) -> Child:
    """Return the embedded runtime as a child; it finds the workflows in the settings.

    It is a bad one on purpose: it hands out some tasks twice at once, and takes some results without answering.
    """
    return Child(
        scene.folder / "logs" / "runtime.log",
        *("orbit_runtime", "--port", str(scene.port), "--db", str(scene.folder / "runtime.sqlite3")),
        *(f"--token={scene.admin_token}", f"--worker-token={scene.worker_token}"),
        *("--session-timeout", str(SESSION_SECONDS)),
        *("--fault", f"duplicate:pollx{MISHAPS}", "--fault", f"lost:completex{MISHAPS}"),
    )


def worker(scene: Scene) -> Child:
    """Return the worker as a child."""
    return Child(scene.folder / "logs" / "worker.log", "orbit_worker")


def pause(seconds: float) -> None:
    """Wait; nothing in this process has to wake it."""
    threading.Event().wait(seconds)


def wait_until_open(child: Child, port: int) -> None:
    """Wait until the child listens on the port."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        child.check()
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            pause(0.05)
    raise DemoError(f"nothing listens on port {port} after {START_SECONDS:.0f} s. Last lines:\n{child.tail()}")

"""Worker processes of a case: started together, watched from outside, ended together."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from benchmarks.databases import cpu_of

LOOK_SECONDS = 0.02
END_SECONDS = 15.0
ROOT = Path(__file__).resolve().parent.parent
_never = threading.Event()


class CaseError(Exception):
    """A case that did not do what it should; the text says what was seen."""


def pause(seconds: float) -> None:
    """Let time pass."""
    _never.wait(seconds)


def wait_for(condition: Callable[[], bool], seconds: float, what: str) -> float:
    """Return the seconds until a condition was true; raise CaseError when it takes longer."""
    began = time.monotonic()
    while not condition():
        if time.monotonic() - began > seconds:
            raise CaseError(f"{what}: not within {seconds:g} s")
        pause(LOOK_SECONDS)
    return time.monotonic() - began


class Processes:
    """Some processes with one log."""

    def __init__(self, commands: Sequence[Sequence[str]], environment: dict[str, str], folder: Path) -> None:
        self.log = folder / f"{time.monotonic_ns()}.log"
        self._log = self.log.open("wb")
        self.started_at = time.monotonic()
        self._children = [
            subprocess.Popen(
                command, env=environment, cwd=folder, stdout=self._log, stderr=self._log, start_new_session=True
            )
            for command in commands
        ]

    @property
    def pids(self) -> list[int]:
        """The processes and all their descendants."""
        return [pid for child in self._children for pid in family(child.pid)]

    def cpu_seconds(self) -> float:
        """Return the CPU that they have used."""
        return sum(cpu_of(pid) for pid in self.pids)

    def memory_mb(self) -> float:
        """Return the resident memory of the largest process, in MB."""
        return max(_resident_mb(pid) for pid in self.pids)

    def check(self) -> None:
        """Raise CaseError when one has ended."""
        for child in self._children:
            if child.poll() is not None:
                raise CaseError(f"a process ended with code {child.returncode}")

    def end(self) -> None:
        """Ask them to end, orderly; kill what does not."""
        for child in self._children:
            child.send_signal(signal.SIGTERM)
        end = time.monotonic() + END_SECONDS
        try:
            for child in self._children:
                child.wait(max(end - time.monotonic(), 0.1))
        except subprocess.TimeoutExpired:
            print(f"!! a process was killed: it did not end within {END_SECONDS:g} s", file=sys.stderr)
        finally:
            self.kill()

    def kill(self) -> None:
        """Leave none of them, nor of what they started, behind."""
        for child in self._children:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)  # each leads a group of its own
            child.wait(10)
        self._log.close()

    def tail(self) -> str:
        """Return the end of the log."""
        return self.log.read_text(errors="replace")[-2_000:]


def family(pid: int) -> Iterator[int]:
    """Yield a process and its descendants, those that still run."""
    if not Path(f"/proc/{pid}").exists():
        return
    yield pid
    for thread in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found = thread.read_text().split()
        except OSError:
            continue
        for child in found:
            yield from family(int(child))


def _resident_mb(pid: int) -> float:
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except OSError:
        return 0.0
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6

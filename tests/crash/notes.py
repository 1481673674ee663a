"""What handlers write down outside of any database: a test, and another process, sees it at once."""

import os
import time
from pathlib import Path

from orbit_django import TaskContext
from tests.crash.world import NOTES


def note(ctx: TaskContext, word: str, text: str = "") -> int:
    """Append one line to the file `<execution>.<word>` in one write; return how many lines it has now."""
    path = _path(ctx.execution_id, word)
    with path.open("a", encoding="utf-8") as file:
        file.write(f"{text or os.getpid()}\n")
    return count(ctx.execution_id, word)


def count(execution_id: str, word: str) -> int:
    """Return how many lines were noted under a word."""
    path = _path(execution_id, word)
    return len(path.read_text(encoding="utf-8").splitlines()) if path.exists() else 0


def meet(ctx: TaskContext, other: str, word: str) -> None:
    """Note a word and wait until the other execution has noted it too."""
    note(ctx, word)
    end = time.monotonic() + 10
    while not count(other, word) and time.monotonic() < end:
        ctx.sleep(0.02)


def _path(execution_id: str, word: str) -> Path:
    return Path(os.environ[NOTES]) / f"{execution_id}.{word}"

"""What was found, and looking with a limit in time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from queue import Empty, SimpleQueue
from typing import NamedTuple

from orbit_django.clock import SystemClock


class Level(Enum):
    """How a finding is to be taken."""

    OK = "ok"
    NOTE = "note"  # may be meant so
    WRONG = "wrong"


class Finding(NamedTuple):
    """One line: what was looked at, what was found, and what to do about it ("" when nothing)."""

    level: Level
    about: str
    text: str
    advice: str = ""


Look = Callable[[], Iterable[Finding]]


def ok(about: str, text: str) -> Finding:
    """Return a finding about which nothing is to be done."""
    return Finding(Level.OK, about, text)


def note(about: str, text: str, advice: str = "") -> Finding:
    """Return a finding that may be meant so."""
    return Finding(Level.NOTE, about, text, advice)


def wrong(about: str, text: str, advice: str) -> Finding:
    """Return a finding that somebody has to do something about."""
    return Finding(Level.WRONG, about, text, advice)


def within(seconds: float, about: str, look: Look) -> Iterator[Finding]:
    """Yield what a look finds, as it finds it; what hangs is left behind, and is itself a finding."""
    found: SimpleQueue[Finding | None] = SimpleQueue()

    def work() -> None:
        try:
            for finding in look():
                found.put(finding)
        except Exception as error:  # noqa: BLE001  (a look that fails is itself a finding)
            text = " ".join(str(error).split())
            found.put(wrong(about, f"{type(error).__name__}: {text}", "this was not expected; please report it"))
        finally:
            found.put(None)

    clock = SystemClock()
    end = clock.monotonic() + seconds
    threading.Thread(target=work, name="orbit-doctor", daemon=True).start()
    while True:
        try:
            finding = found.get(timeout=max(end - clock.monotonic(), 0.0))
        except Empty:
            yield wrong(about, f"no answer within {seconds:g} s", "look whether it hangs, or something in between does")
            return
        if finding is None:
            return
        yield finding

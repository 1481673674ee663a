"""Waiting for what other threads do."""

import time
from collections.abc import Callable
from threading import Event
from typing import Any

LOOK_SECONDS = 0.02


def wait_for(condition: Callable[[], Any], seconds: float = 10) -> Any:
    """Return what the condition returns as soon as it is true; fail when that takes longer."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, f"not true within {seconds} s"
        Event().wait(LOOK_SECONDS)
    return found

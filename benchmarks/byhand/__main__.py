"""`python -m benchmarks.byhand CASE URL THREADS`: one process of a worker written by hand, until SIGTERM."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable
from importlib import import_module

Step = Callable[[], None]
CASES = {"A": "bare", "naive": "naive", "floor": "floor"}


def main(case: str, url: str, threads: int) -> None:
    """Run the loops of a case; each calls its step until the end."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    module = import_module(f"benchmarks.byhand.{CASES[case]}")
    worker = module.Worker(url)
    loops = [threading.Thread(target=repeat, args=(worker.loop(), stop)) for _ in range(threads)]
    for loop in loops:
        loop.start()
    for loop in loops:
        loop.join()
    worker.close()


def repeat(step: Step, stop: threading.Event) -> None:
    """Call a step until told to stop."""
    while not stop.is_set():
        step()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))

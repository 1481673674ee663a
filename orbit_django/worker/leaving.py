"""How the process of a worker ends when threads are left that would keep it from ending.

For a process that was started as the worker only: in any other, its threads and its end are somebody else's.
"""

from __future__ import annotations

import logging
import os
import sys
import threading

from orbit_django.logs import SteadyLogger

logger = SteadyLogger(logging.getLogger(__name__))

GRACE_SECONDS = 2.0  # what threads that handlers left behind get after an orderly end


def leave_at_once(code: int) -> None:
    """End the process although handlers still run; their transactions roll back with it."""
    sys.stdout.flush()
    sys.stderr.flush()
    logging.shutdown()
    os._exit(code)


def leave_within(seconds: float, code: int) -> None:
    """Let the process end by itself, and end it after that long should threads hold it.

    Python waits for every thread that is no daemon, and for those of a ThreadPoolExecutor even so.
    """
    threading.Thread(target=_leave, args=(seconds, code), name="orbit-leaving", daemon=True).start()


def _leave(seconds: float, code: int) -> None:
    threading.Event().wait(seconds)
    found = {thread.name for thread in threading.enumerate() if thread is not threading.main_thread()}
    names = sorted(name for name in found if not name.startswith("orbit-"))
    logger.warning("threads that handlers left behind are given up", extra={"threads": ", ".join(names)})
    leave_at_once(code)

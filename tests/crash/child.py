"""A worker process that kills itself at the step of a task that `CRASH_AT` names.

`python -m tests.crash.child` takes the options of `manage.py orbit_worker`.
"""

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

import django
from django.core.management import call_command

Function = Callable[..., Any]


def die() -> None:
    """End this process as the kernel would, leaving nothing any time to clean up."""
    os.kill(os.getpid(), signal.SIGKILL)


def before(function: Function) -> Function:
    """Die instead of calling."""

    def dying(*args: Any, **kwargs: Any) -> None:
        die()

    return dying


def after(function: Function) -> Function:
    """Call, and die once the call has brought something."""

    def dying(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        if result is not None:
            die()
        return result

    return dying


def arm(step: str) -> None:
    """Place the kill: a step's name means that its work was done and nothing of the next one."""
    from orbit_django import conf, idempotency, outbox
    from orbit_django.worker import atomic, ledger
    from orbit_django.worker.binding import open_transport

    binding = type(open_transport(conf.load()))  # the one that the worker will speak
    places: dict[str, tuple[object, str, Callable[[Function], Function]]] = {
        "loop": (binding, "poll", after),
        "executor": (atomic.AtomicRun, "run", before),
        "idempotency": (idempotency, "begin", after),
        "handler": (ledger, "invoke", after),
        "report": (outbox, "draft", after),
        "outbox": (outbox, "add", after),
        "relay": (binding, "send", before),
        "receipt": (binding, "send", after),
    }
    owner, name, how = places[step]
    setattr(owner, name, how(getattr(owner, name)))


if __name__ == "__main__":
    django.setup()
    if step := os.environ.get("CRASH_AT"):
        arm(step)
    call_command("orbit_worker", *sys.argv[1:])

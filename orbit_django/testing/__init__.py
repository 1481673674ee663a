"""For the tests of projects that use orbit_django, and for its own.

pytest finds the fixtures by itself, see ``plugin``; a TestCase takes ``OrbitTestCaseMixin``. Both are made of the
functions named here. Each name is loaded when it is first used: pytest imports this package before any settings are.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from orbit_django.testing.cases import OrbitTestCaseMixin
    from orbit_django.testing.idle import run_until_idle
    from orbit_django.testing.report import TaskReport
    from orbit_django.testing.running import run_task
    from orbit_django.testing.runtime import LocalRuntime, running_runtime
    from orbit_django.testing.transport import RecordingTransport
    from orbit_django.testing.trial import exactly_once

__all__ = [
    "LocalRuntime",
    "OrbitTestCaseMixin",
    "RecordingTransport",
    "TaskReport",
    "exactly_once",
    "run_task",
    "run_until_idle",
    "running_runtime",
]

_HOMES = {
    "LocalRuntime": "runtime",
    "OrbitTestCaseMixin": "cases",
    "RecordingTransport": "transport",
    "TaskReport": "report",
    "exactly_once": "trial",
    "run_task": "running",
    "run_until_idle": "idle",
    "running_runtime": "runtime",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    return found

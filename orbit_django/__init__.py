"""orbit_django lets a Django project work for a durable-workflow runtime, with effects exactly once.

These are the names that a handler author needs; the rest is imported from its own module. Each is loaded when it is
first used, since pytest imports this package for its plugin in projects that may have no Django settings.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from orbit_django.protocol import VERSION

if TYPE_CHECKING:
    from orbit_django.context import TaskContext
    from orbit_django.exceptions import TaskCancelled, TaskError
    from orbit_django.tasks import task

__all__ = ["TaskCancelled", "TaskContext", "TaskError", "__version__", "task"]

__version__ = VERSION

_HOMES = {"TaskCancelled": "exceptions", "TaskContext": "context", "TaskError": "exceptions", "task": "tasks"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    return found

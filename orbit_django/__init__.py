"""orbit_django lets a Django project work for a durable-workflow runtime, with effects exactly once.

These are the names that a handler author needs; the rest is imported from its own module.
"""

from orbit_django.context import TaskContext
from orbit_django.exceptions import TaskCancelled, TaskError
from orbit_django.protocol import VERSION
from orbit_django.tasks import task

__all__ = ["TaskCancelled", "TaskContext", "TaskError", "__version__", "task"]

__version__ = VERSION

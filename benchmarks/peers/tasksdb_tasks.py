"""The handler as django-tasks-db runs it."""

from __future__ import annotations

from typing import Any

from django.db import transaction

try:
    from django.tasks import task
except ImportError:
    from django_tasks import task

from benchmarks.work import handler


@task()
def work(input: dict[str, Any]) -> dict[str, Any]:
    """Write one business row."""
    return handler.work(input)


def feed(count: int, input: dict[str, Any]) -> None:
    """Send tasks."""
    with transaction.atomic():
        for _ in range(count):
            work.enqueue(input)

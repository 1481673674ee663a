"""The handler as dramatiq runs it."""

from __future__ import annotations

from typing import Any

import django

django.setup()

import dramatiq  # noqa: E402  (its app makes the connection to Redis)
from django_dramatiq.middleware import AdminMiddleware  # noqa: E402  (needs the app registry)
from django_dramatiq.models import Task  # noqa: E402  (as above)

from benchmarks.work import handler  # noqa: E402  (as above)


@dramatiq.actor
def work(input: dict[str, Any]) -> None:
    """Write one business row."""
    handler.work(input)


def feed(count: int, input: dict[str, Any]) -> None:
    """Send tasks; their rows are written at once rather than one by one."""
    sender = dramatiq.get_broker()
    sender.middleware = [item for item in sender.middleware if not isinstance(item, AdminMiddleware)]
    messages = [work.message(input) for _ in range(count)]
    Task.tasks.bulk_create(
        Task(
            id=message.message_id,
            status=Task.STATUS_ENQUEUED,
            message_data=message.encode(),
            actor_name=message.actor_name,
            queue_name=message.queue_name,
        )
        for message in messages
    )
    for message in messages:
        sender.enqueue(message)

"""The handler as Celery runs it."""

from __future__ import annotations

from typing import Any

import django
from celery import Celery

django.setup()

from benchmarks.work import handler  # noqa: E402  (needs the app registry)

app = Celery("bench")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.conf["CELERY_DB_REUSE_MAX"] = 1_000_000  # else every connection is closed after each task


@app.task
def work(input: dict[str, Any]) -> dict[str, Any]:
    """Write one business row."""
    return handler.work(input)


def feed(count: int, input: dict[str, Any]) -> None:
    """Send tasks."""
    with app.producer_pool.acquire(block=True) as producer:
        for _ in range(count):
            work.apply_async((input,), producer=producer)

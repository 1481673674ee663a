"""The handler as procrastinate runs it."""

from __future__ import annotations

from typing import Any

from procrastinate.contrib.django import app


@app.task
def work(input: dict[str, Any]) -> dict[str, Any]:
    """Write one business row."""
    from benchmarks.work import handler

    return handler.work(input)


def feed(count: int, input: dict[str, Any]) -> None:
    """Send tasks."""
    work.batch_defer(*[{"input": input}] * count)

"""The handler: the same function in every case."""

from __future__ import annotations

from threading import Event
from typing import Any

from benchmarks.work.models import Order

_never = Event()


def work(input: dict[str, Any]) -> dict[str, Any]:
    """Write one business row; before that, take as long as the input says."""
    if delay := input["delay_ms"]:
        _never.wait(delay / 1000)
    order = Order.objects.create(number=input["number"], text=input["text"])
    return {"order": order.pk}

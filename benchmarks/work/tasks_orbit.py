"""The handler as the product runs it."""

from __future__ import annotations

from typing import Any

from benchmarks.work.handler import work
from orbit_django import task


@task("bench.work", version="1.0.0")
def bench_work(input: dict[str, Any]) -> dict[str, Any]:
    """Write one business row."""
    return work(input)

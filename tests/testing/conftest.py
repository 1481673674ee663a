"""Handlers of a test, known to the kit as long as the test runs."""

from collections.abc import Callable
from typing import Any

import pytest

from orbit_django import task
from orbit_django.tasks import registry


@pytest.fixture
def serve(monkeypatch) -> Callable[..., str]:
    """Return what makes a function the handler of a task, by default of ``kit.task``, and returns the task's name."""
    monkeypatch.setattr(registry, "_tasks", dict(registry._tasks))
    monkeypatch.setattr(registry, "faults", [])

    def add(function: Callable[..., Any], name: str = "kit.task", version: str = "1.0.0", **said: Any) -> str:
        task(name, version=version, **said)(function)
        assert registry.faults == []
        return name

    return add

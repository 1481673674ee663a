"""The pytest plugin: the testing kit as fixtures.

pytest loads this module in every project of an environment in which orbit_django is installed, so it imports nothing
but pytest; what a fixture needs is imported when a test asks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from orbit_django.testing.report import TaskReport
    from orbit_django.testing.runtime import LocalRuntime


@pytest.fixture
def orbit_runtime() -> Iterator[LocalRuntime]:
    """Run an embedded runtime in this process, with the setting SERVER pointing to it and CONTRACTS loaded."""
    from orbit_django.testing.runtime import running_runtime

    with running_runtime() as runtime:
        yield runtime


@pytest.fixture
def run_task() -> Callable[..., TaskReport]:
    """Return ``run_task(name, input, **assignment)``: one handler through the real ledger, in the test's thread."""
    from orbit_django.testing.running import run_task

    return run_task


@pytest.fixture
def run_until_idle(orbit_runtime: LocalRuntime) -> Callable[..., int]:
    """Return ``run_until_idle(threads=0)``: work for ``orbit_runtime`` until nothing is due."""
    from orbit_django.testing.idle import run_until_idle

    return partial(run_until_idle, orbit_runtime)


@pytest.fixture
def exactly_once() -> Callable[..., Any]:
    """Return ``exactly_once(name, input, count=callable)``: the task under redeliveries, duplicates and crashes."""
    from orbit_django.testing.trial import exactly_once

    return exactly_once

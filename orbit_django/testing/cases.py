"""The testing kit for classes of ``unittest``, on top of Django's TestCase or TransactionTestCase."""

from __future__ import annotations

import unittest
from collections.abc import Callable
from contextlib import ExitStack
from functools import cached_property
from typing import TYPE_CHECKING, Any

from orbit_django.testing.idle import run_until_idle
from orbit_django.testing.report import TaskReport
from orbit_django.testing.running import run_task
from orbit_django.testing.runtime import LocalRuntime, running_runtime
from orbit_django.testing.trial import exactly_once

if TYPE_CHECKING:
    _Base = unittest.TestCase
else:
    _Base = object


class OrbitTestCaseMixin(_Base):
    """What the fixtures offer, as methods: ``class ChargeTest(OrbitTestCaseMixin, TestCase)``."""

    @cached_property
    def orbit_runtime(self) -> LocalRuntime:
        """An embedded runtime in this process; it is started when it is first asked for, and ends with the test."""
        stack = ExitStack()
        runtime = stack.enter_context(running_runtime())
        self.addCleanup(stack.close)
        self.addCleanup(self.__dict__.pop, "orbit_runtime", None)
        return runtime

    def run_task(self, name: str, input: Any = None, **assignment: Any) -> TaskReport:
        """Run one handler through the real ledger, in this thread and transaction; see ``run_task``."""
        return run_task(name, input, **assignment)

    def run_until_idle(self, *, threads: int = 0) -> int:
        """Work for ``orbit_runtime`` until nothing is due; return how many tasks were run."""
        return run_until_idle(self.orbit_runtime, threads=threads)

    def exactly_once(self, name: str, input: Any = None, *, count: Callable[[], Any], **more: Any) -> None:
        """Replay a task under redeliveries, duplicates and crashes; only in a TransactionTestCase."""
        exactly_once(name, input, count=count, **more)

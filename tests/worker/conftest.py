"""The stage on which worker processes play."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from orbit_django.contracts import read
from orbit_django.embedded.server import EmbeddedRuntime
from tests.processes import ListeningFaults, Stage
from tests.worker.staging import HURRY, WORKFLOWS


@pytest.fixture
def timeout_ms() -> int:
    """Return the session timeout of the runtime; a test may ask for another."""
    return 30_000


@pytest.fixture
def stage(child_environment: dict[str, str], tmp_path: Path, timeout_ms: int) -> Iterator[Stage]:
    runtime = EmbeddedRuntime(read(WORKFLOWS + HURRY), session_timeout_ms=timeout_ms, faults=ListeningFaults())
    with runtime, closing(Stage(runtime, child_environment, tmp_path)) as stage:
        yield stage

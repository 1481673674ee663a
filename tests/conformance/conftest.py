"""The scene of every check."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from orbit_django import conf
from orbit_django.tasks import registry
from tests.conformance.scene import Scene, watched_logs


@pytest.fixture
def binding(request: pytest.FixtureRequest) -> str:
    """Return the binding that the check is run over."""
    return str(request.param)


@pytest.fixture
def scene(
    binding: str,
    child_environment: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    settings,
) -> Iterator[Scene]:
    """Return an empty scene: no handler, no setting, no worker."""
    settings.ORBIT = {}
    settings.LOGGING_CONFIG = None  # a command run here must not change the logging of the tests
    environment = dict(child_environment)
    for name in conf.FROM_ENVIRONMENT:
        monkeypatch.delenv(f"ORBIT_{name}", raising=False)
        environment.pop(f"ORBIT_{name}", None)
    monkeypatch.setattr(registry, "_tasks", {})
    monkeypatch.setattr(registry, "faults", [])
    with closing(Scene(binding, tmp_path, environment, watched_logs(caplog))) as scene:
        yield scene

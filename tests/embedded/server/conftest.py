import pytest

from orbit_django.contracts import read
from orbit_django.embedded.server import EmbeddedRuntime
from tests.contracts.texts import GREET


@pytest.fixture
def runtime():
    with EmbeddedRuntime(read(GREET), session_timeout_ms=6_000, max_body=2_000) as runtime:
        yield runtime

import pytest

from orbit_django.contracts import read
from orbit_django.embedded.faults import Faults
from orbit_django.embedded.recorder import Recorder
from orbit_django.embedded.server import EmbeddedRuntime
from tests.contracts.texts import GREET


@pytest.fixture
def faults() -> Faults:
    return Faults()


@pytest.fixture
def runtime(faults: Faults):
    with EmbeddedRuntime(read(GREET), faults=faults, recorder=Recorder()) as runtime:
        yield runtime

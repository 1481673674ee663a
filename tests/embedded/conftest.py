import pytest

from tests.embedded.world import World


@pytest.fixture
def world() -> World:
    return World()

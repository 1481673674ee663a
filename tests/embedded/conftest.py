import pytest

from tests.embedded.wire import Client
from tests.embedded.world import World


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def client(runtime):
    """A client of the runtime that a room's tests have made."""
    client = Client(runtime.url)
    yield client
    client.close()

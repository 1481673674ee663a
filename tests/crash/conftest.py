"""What the tests of this folder stand on: a world of their own, and a door in front of its database."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import databases
from tests.crash.proxy import Proxy
from tests.crash.world import World, world

ON_A_SERVER = pytest.mark.skipif(databases.chosen() == "sqlite", reason="a file has no connection that could break")


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    """Yield a door in front of the database server."""
    with Proxy(databases.chosen()) as made:
        yield made


@pytest.fixture
def made(child_environment: dict[str, str], tmp_path: Path) -> Iterator[World]:
    """Yield a world whose workers reach the database directly."""
    with world(child_environment, tmp_path) as one:
        yield one


@pytest.fixture
def distant(child_environment: dict[str, str], tmp_path: Path, proxy: Proxy) -> Iterator[World]:
    """Yield a world whose workers reach the database through the door."""
    with world(child_environment | proxy.environment(), tmp_path) as one:
        yield one

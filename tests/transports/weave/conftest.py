from collections.abc import Iterator

import pytest

from tests.transports.weave.scene import Scene


@pytest.fixture
def scene() -> Iterator[Scene]:
    scene = Scene()
    yield scene
    scene.close()

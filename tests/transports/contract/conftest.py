from collections.abc import Iterator

import pytest

from orbit_django.contracts import read
from orbit_django.embedded.callers import read_identities
from orbit_django.embedded.server import EmbeddedRuntime
from tests.contracts.texts import GREET
from tests.processes import ListeningFaults
from tests.transports.contract.side import ADMIN, IDENTITY, MAX_BODY, TOKEN, TWICE, Side


@pytest.fixture
def runtime() -> Iterator[EmbeddedRuntime]:
    made = EmbeddedRuntime(
        read(GREET + TWICE),
        token=ADMIN,
        worker_token=TOKEN,
        identities=read_identities(IDENTITY),
        faults=ListeningFaults(),
        max_body=MAX_BODY,
        grpc_port=0,
    )
    with made:
        yield made


@pytest.fixture(params=["http", "grpc"])
def side(request: pytest.FixtureRequest, runtime: EmbeddedRuntime) -> Iterator[Side]:
    made = Side(runtime, request.param)
    yield made
    made.close()

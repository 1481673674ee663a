"""The runtime that the doctor is shown: with tokens for all, and one worker that has its own."""

import hashlib
from collections.abc import Iterator

import pytest

from orbit_django.contracts import read
from orbit_django.embedded.callers import read_identities
from orbit_django.embedded.server import EmbeddedRuntime
from tests.processes import ListeningFaults
from tests.worker.staging import WORKFLOWS

IDENTITY = f"""
[[worker]]
id = "shop-1"
token_sha256 = "{hashlib.sha256(b"wrk-IDENTITY").hexdigest()}"
tasks = ["test.*"]
"""


@pytest.fixture
def runtime() -> Iterator[EmbeddedRuntime]:
    made = EmbeddedRuntime(
        read(WORKFLOWS),
        token="adm-SECRET",
        worker_token="wrk-SECRET",
        identities=read_identities(IDENTITY),
        faults=ListeningFaults(),
        grpc_port=0,
    )
    with made:
        yield made

"""The laboratory with workers over gRPC: the same schedules, and the exact messages of the reports."""

import json
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from orbit_django.embedded.grpc_server import calls
from tests.crash.lab import Experiment


class GrpcExperiment(Experiment):
    """One schedule over gRPC."""

    grpc_port = 0
    options = ("--transport", "grpc")

    def _recording(self) -> AbstractContextManager[None]:
        return recording(self._evidence.bodies)


@contextmanager
def recording(bodies: list[tuple[str, bytes]]) -> Iterator[None]:
    """Keep the exact message of every report that reaches the runtime, beside the token that a judge asks for."""
    body_of = calls.body_of

    def keep(call: Any, content: bytes) -> Any:
        body, name = body_of(call, content), call.path.rpartition("/")[2]
        if name in ("complete", "fail"):
            bodies.append((name, json.dumps({"token": body["token"], "message": content.hex()}).encode()))
        return body

    calls.body_of = keep
    try:
        yield
    finally:
        calls.body_of = body_of

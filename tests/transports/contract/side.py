"""One binding with an embedded runtime behind it, and what the cases of the contract have in common."""

import hashlib
import json
from collections.abc import Callable
from typing import Any

import pytest

from orbit_django.conf import OrbitSettings
from orbit_django.embedded.server import EmbeddedRuntime
from orbit_django.exceptions import NoAnswerError, RefusedError
from orbit_django.protocol import Assignment, Contract, Kind, Registration
from orbit_django.transports.base import Transport
from orbit_django.worker.binding import open_transport

ADMIN, TOKEN, OWN = "adm-SECRET-1", "wrk-SECRET-1", "own-SECRET-1"
IDENTITY = f"""
[[worker]]
id = "shop-1"
token_sha256 = "{hashlib.sha256(OWN.encode()).hexdigest()}"
tasks = ["greeting.*"]
"""
CONTRACTS = (Contract("greeting.compose", "1.0.0"),)
MAX_BODY = 4_000
TWICE = """
workflow Twice {
  version "1.0.0"
  input { name: String }
  output { message: String }
  step compose { worker "greeting.compose" using ruby with { name: input.name } }
  step again { worker "greeting.compose" using ruby with { name: compose.message } }
  return { message: again.message }
}
"""
HELLO = {"message": "Hello, Zoë"}
CALLS: dict[str, Callable[[Transport], object]] = {
    "register": lambda transport: transport.register(Registration("w-1", "ruby", CONTRACTS, "t/1")),
    "poll": lambda transport: transport.poll("s-1", 50),
    "heartbeat": lambda transport: transport.heartbeat("s-1", timeout_seconds=3),
    "complete": lambda transport: transport.send(Kind.COMPLETE, completion("tok-SECRET-2")),
    "fail": lambda transport: transport.send(Kind.FAIL, failure("tok-SECRET-2")),
    "unregister": lambda transport: transport.unregister("s-1", timeout_seconds=3),
}
OF_SESSIONS = ("poll", "heartbeat", "unregister")
every_call = pytest.mark.parametrize("call", CALLS)


def completion(token: str, output: object = HELLO) -> str:
    return json.dumps({"token": token, "output": output})


def failure(token: str, **more: object) -> str:
    return json.dumps({"token": token, "error_code": "NO_NAME", "error_message": "who?", "retryable": False} | more)


class Side:
    """One binding with a runtime behind it."""

    def __init__(self, runtime: EmbeddedRuntime, name: str) -> None:
        self.runtime = runtime
        self.faults: Any = runtime.faults
        self.name = name
        self._opened: list[Transport] = []
        self.transport = self.open()

    def open(self, token: str | None = TOKEN) -> Transport:
        """Return the binding that a worker with this token has."""
        given = {"server": self.runtime.url, "grpc_target": self.runtime.grpc_target, "transport": self.name}
        self._opened.append(open_transport(OrbitSettings(worker_token=token, **given)))
        return self._opened[-1]

    def close(self) -> None:
        for transport in self._opened:
            transport.close()

    def session(self) -> str:
        return self.transport.register(Registration("w-1", "ruby", CONTRACTS, "t/1")).session_id

    def start(self, workflow: str = "Greet", execution_id: str = "e-1") -> None:
        with self.runtime.changing() as runtime:
            runtime.start(workflow, {"name": "Zoë"}, execution_id)

    def task(self, session: str = "", workflow: str = "Greet") -> Assignment:
        """Start an execution and return its task."""
        self.start(workflow)
        found = self.transport.poll(session or self.session(), 1_000)
        assert found is not None
        return found

    def status(self, execution_id: str = "e-1") -> str:
        with self.runtime.lock:
            return self.runtime.runtime.state.execution(execution_id).status


def refused(call: str, transport: Transport) -> RefusedError:
    with pytest.raises(RefusedError) as caught:
        CALLS[call](transport)
    assert "SECRET" not in str(caught.value)
    return caught.value


def unanswered(call: str, transport: Transport) -> NoAnswerError:
    with pytest.raises(NoAnswerError) as caught:
        CALLS[call](transport)
    assert "SECRET" not in str(caught.value)
    return caught.value

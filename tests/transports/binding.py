"""The HTTP binding with its answers given, and what its tests have in common."""

import json

import pytest

from orbit_django.exceptions import NoAnswerError, RefusedError
from orbit_django.protocol import Contract, Kind, Registration
from orbit_django.transports.http import HttpTransport

SERVER = "http://runtime.test:7233"
SECRET = "tok-SECRET-1"
VERSION = {"x-orbit-api-version": "orbit-api/1"}
REGISTRATION = Registration(
    "shop-1", "python", (Contract("pay.charge", "1.0.0"), Contract("pay.charge", "2.0.0")), "x/1"
)
ASSIGNMENT = {
    "token": "task-1",
    "execution_id": "e-1",
    "workflow": "Pay",
    "workflow_version": "1.0.0",
    "step_id": "charge",
    "task_name": "pay.charge",
    "contract_version": "1.0.0",
    "input": {"id": 9007199254740993, "who": "Zoë"},
    "idempotency_key": "e-1/charge",
    "attempt": 2,
    "redelivery": True,
    "deadline_ms": 1794736057501,
    "timeout_ms": "30000",
    "unheard_of": [],
}
UNKNOWN = {"error": {"code": "UNKNOWN_SESSION", "message": "unknown or expired worker session; register again"}}
CALLS = {
    "register": lambda transport: transport.register(REGISTRATION),
    "poll": lambda transport: transport.poll("s-1", 20_000),
    "heartbeat": lambda transport: transport.heartbeat("s-1", timeout_seconds=3),
    "complete": lambda transport: transport.send(Kind.COMPLETE, '{"token":"task-1","output":{}}'),
    "fail": lambda transport: transport.send(Kind.FAIL, '{"token":"task-1","error_code":"X"}'),
    "unregister": lambda transport: transport.unregister("s-1", timeout_seconds=2),
}
PATHS = {name: f"/v1/{'tasks' if name in ('complete', 'fail') else 'workers'}/{name}" for name in CALLS}
every_call = pytest.mark.parametrize("name", CALLS)


def reply(runtime, name: str, body: object = "", status: int = 200, headers: dict[str, str] | None = None) -> None:
    text = body if isinstance(body, str | bytes) else json.dumps(body)
    runtime.post(SERVER + PATHS[name], body=text, status=status, headers=VERSION if headers is None else headers)


def sent(runtime) -> object:
    return json.loads(runtime.calls[-1].request.body)


def refused(transport: HttpTransport, name: str) -> RefusedError:
    with pytest.raises(RefusedError) as caught:
        CALLS[name](transport)
    return caught.value


def unanswered(transport: HttpTransport, name: str) -> NoAnswerError:
    with pytest.raises(NoAnswerError) as caught:
        CALLS[name](transport)
    return caught.value

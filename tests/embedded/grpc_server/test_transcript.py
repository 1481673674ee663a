"""The recorded conversation over gRPC, by a client that knows nothing but the generated stubs."""

import json
from functools import partial
from typing import Any

import grpc
import pytest
from google.protobuf import json_format

from orbit_django.contracts import read
from orbit_django.embedded.server import EmbeddedRuntime
from orbit_django.transports.proto import worker_pb2 as pb
from orbit_django.transports.proto.worker_pb2_grpc import WorkerServiceStub
from tests.contracts.texts import GREET
from tests.embedded.test_transcript import TOKENS, TRANSCRIPT, Names
from tests.embedded.wire import JSON, Client

CALLS = {
    "/v1/workers/register": ("RegisterWorker", pb.RegisterWorkerRequest),
    "/v1/workers/poll": ("PollTask", pb.PollTaskRequest),
    "/v1/workers/heartbeat": ("Heartbeat", pb.HeartbeatRequest),
    "/v1/workers/unregister": ("UnregisterWorker", pb.UnregisterWorkerRequest),
    "/v1/tasks/complete": ("CompleteTask", pb.CompleteTaskRequest),
    "/v1/tasks/fail": ("FailTask", pb.FailTaskRequest),
}
STATUSES = {404: grpc.StatusCode.NOT_FOUND}


def shown(message: Any) -> dict[str, Any]:
    """Return a message as the record shows it: numbers as numbers, nothing for what was left out."""
    given = {"preserving_proto_field_name": True, "always_print_fields_with_no_presence": True}
    fields = json_format.MessageToDict(message, **given)
    return {
        name: int(value) if name.endswith("_ms") else value
        for name, value in fields.items()
        if (name, value) != ("reason", "")
    }


@pytest.fixture
def runtime():
    with EmbeddedRuntime(read(GREET), grpc_port=0, token=TOKENS["admin"], worker_token=TOKENS["worker"]) as runtime:
        yield runtime


def test_the_recorded_conversation(runtime: EmbeddedRuntime) -> None:
    names, http = Names(), {name: Client(runtime.url, token) for name, token in TOKENS.items()}
    with grpc.insecure_channel(runtime.grpc_target or "") as channel:
        stub = WorkerServiceStub(channel)
        for exchange in TRANSCRIPT:
            body = json.loads(names.fill(json.dumps(exchange.get("body"))))
            if exchange["path"] in CALLS:
                play(stub, names, exchange, body)
            else:
                sent, headers = (None, {}) if body is None else (json.dumps(body).encode(), JSON)
                reply = http[exchange["credential"]].send(exchange["method"], exchange["path"], sent, headers)
                assert reply.status == exchange["status"]
                names.match(exchange["answer"], reply.json, trimmed=exchange.get("trimmed", False))
    for client in http.values():
        client.close()


def play(stub: WorkerServiceStub, names: Names, exchange: dict[str, Any], body: dict[str, Any]) -> None:
    """Make the call of an exchange; its answer must be the recorded one."""
    name, kind = CALLS[exchange["path"]]
    if name == "FailTask":
        body.setdefault("retryable", True)
    metadata = [("authorization", f"Bearer {TOKENS[exchange['credential']]}")]
    call = partial(getattr(stub, name), json_format.ParseDict(body, kind()), metadata=metadata, timeout=25)
    wanted = exchange["answer"]
    if exchange["status"] in STATUSES:
        with pytest.raises(grpc.RpcError) as caught:
            call()
        code, message = wanted["error"]["code"], wanted["error"]["message"]
        assert caught.value.code() is STATUSES[exchange["status"]]
        assert caught.value.details() == f"{code}: {message}"
        assert dict(caught.value.trailing_metadata())["orbit-error-code"] == code
    elif wanted is None:
        assert call() == pb.ExecuteTaskRequest()
    else:
        found = shown(call())
        assert set(found) == set(wanted)
        names.match(wanted, found, trimmed=True)


@pytest.mark.parametrize(
    ("call", "request_", "code", "text", "has_metadata"),
    [
        ("CompleteTask", pb.CompleteTaskRequest(), "INVALID_ARGUMENT", "INVALID_REQUEST: token must not", False),
        ("FailTask", pb.FailTaskRequest(token="t"), "INVALID_ARGUMENT", "INVALID_REQUEST: error_code must not", False),
        ("RegisterWorker", pb.RegisterWorkerRequest(), "INVALID_ARGUMENT", "INVALID_REQUEST: ", True),
        ("Heartbeat", pb.HeartbeatRequest(), "NOT_FOUND", "UNKNOWN_SESSION: ", True),
        ("UnregisterWorker", pb.UnregisterWorkerRequest(), "NOT_FOUND", "UNKNOWN_SESSION: ", True),
    ],
)
def test_refusals_are_told_as_over_the_wire(runtime, call, request_, code, text, has_metadata) -> None:
    with grpc.insecure_channel(runtime.grpc_target) as channel, pytest.raises(grpc.RpcError) as caught:
        getattr(WorkerServiceStub(channel), call)(request_, metadata=[("authorization", "Bearer worker-secret")])
    error = caught.value
    assert (error.code().name, error.details().startswith(text)) == (code, True), error.details()
    assert ("orbit-error-code" in dict(error.trailing_metadata())) is has_metadata


def test_missing_and_wrong_credentials_are_told_without_metadata(runtime) -> None:
    for metadata in ((), (("authorization", "Bearer no"),)):
        with grpc.insecure_channel(runtime.grpc_target) as channel, pytest.raises(grpc.RpcError) as caught:
            WorkerServiceStub(channel).Heartbeat(pb.HeartbeatRequest(), metadata=metadata)
        assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
        assert caught.value.details().startswith("UNAUTHENTICATED: ")
        assert "orbit-error-code" not in dict(caught.value.trailing_metadata())


def test_a_failure_that_says_nothing_of_another_try_gets_none(runtime) -> None:
    worker = [("authorization", "Bearer worker-secret")]
    with grpc.insecure_channel(runtime.grpc_target) as channel:
        stub = WorkerServiceStub(channel)
        task = pb.TaskContract(task_name="greeting.compose", contract_version="1.0.0")
        session = stub.RegisterWorker(
            pb.RegisterWorkerRequest(worker_id="w", runtime="ruby", contracts=[task]), metadata=worker
        ).worker_session_id
        with runtime.changing() as state:
            state.start("Greet", {"name": "Ada"}, "one")
        found = stub.PollTask(pb.PollTaskRequest(worker_session_id=session), metadata=worker)
        assert stub.FailTask(pb.FailTaskRequest(token=found.token, error_code="X"), metadata=worker).accepted
    with runtime.lock:
        assert runtime.runtime.state.execution("one").status == "FAILED"

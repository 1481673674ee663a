"""The definition of the messages: what it says is what docs/protocol.md says, and what was generated from it."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from google.protobuf.descriptor import FieldDescriptor

from orbit_django.transports.proto import worker_pb2, worker_pb2_grpc
from tests import house

FOLDER = Path("orbit_django/transports/proto")
FIELDS = {
    "TaskContract": "task_name contract_version",
    "RegisterWorkerRequest": "worker_id runtime contracts* sdk",
    "RegisterWorkerResponse": "accepted! worker_session_id heartbeat_interval_ms# session_timeout_ms# warnings*",
    "HeartbeatRequest": "worker_session_id",
    "HeartbeatResponse": "accepted! cancel*",
    "PollTaskRequest": "worker_session_id wait_ms#",
    "ExecuteTaskRequest": "token execution_id workflow workflow_version step_id task_name contract_version input{}"
    " idempotency_key attempt# redelivery! deadline_ms?# timeout_ms?#",
    "CompleteTaskRequest": "token output{}",
    "FailTaskRequest": "token error_code error_message retryable! details{}",
    "TaskResultAck": "accepted! reason",
    "UnregisterWorkerRequest": "worker_session_id",
    "UnregisterWorkerResponse": "accepted!",
}
METHODS = {
    "RegisterWorker": ("RegisterWorkerRequest", "RegisterWorkerResponse"),
    "Heartbeat": ("HeartbeatRequest", "HeartbeatResponse"),
    "PollTask": ("PollTaskRequest", "ExecuteTaskRequest"),
    "CompleteTask": ("CompleteTaskRequest", "TaskResultAck"),
    "FailTask": ("FailTaskRequest", "TaskResultAck"),
    "UnregisterWorker": ("UnregisterWorkerRequest", "UnregisterWorkerResponse"),
}
NUMBERS = (FieldDescriptor.TYPE_UINT64, FieldDescriptor.TYPE_UINT32)


def written(field: FieldDescriptor) -> str:
    """Return a field as it stands above: * several, ! a flag, # a number, {} a value, ? told from 0."""
    if field.is_repeated:
        return f"{field.name}*"
    if field.message_type is not None:
        return f"{field.name}{{}}" if field.message_type.full_name == "google.protobuf.Value" else field.name
    mark = "?" if field.has_presence else ""
    kind = "#" if field.type in NUMBERS else "!" if field.type == FieldDescriptor.TYPE_BOOL else ""
    return f"{field.name}{mark}{kind}"


def test_fields_have_the_names_numbers_and_types_of_the_protocol() -> None:
    messages = worker_pb2.DESCRIPTOR.message_types_by_name
    assert {name: [written(field) for field in found.fields] for name, found in messages.items()} == {
        name: text.split() for name, text in FIELDS.items()
    }
    for message in messages.values():
        assert [field.number for field in message.fields] == list(range(1, len(message.fields) + 1))
    assert messages["RegisterWorkerRequest"].fields_by_name["contracts"].message_type is messages["TaskContract"]
    attempt = messages["ExecuteTaskRequest"].fields_by_name["attempt"]
    assert attempt.type == FieldDescriptor.TYPE_UINT32


def test_package_and_calls_are_those_of_the_protocol() -> None:
    assert worker_pb2.DESCRIPTOR.package == "orbit.worker.v1"
    (calls,) = worker_pb2.DESCRIPTOR.services_by_name.values()
    assert calls.full_name == "orbit.worker.v1.WorkerService"
    assert {m.name: (m.input_type.name, m.output_type.name) for m in calls.methods} == METHODS


def test_the_generated_modules_are_up_to_date(tmp_path: Path) -> None:
    folders = [f"--{kind}_out={tmp_path}" for kind in ("python", "pyi", "grpc_python")]
    command = [sys.executable, "-m", "grpc_tools.protoc", "-I.", *folders, str(FOLDER / "worker.proto")]
    subprocess.run(command, cwd=house.ROOT, check=True, capture_output=True)
    made = {path.name: path.read_text() for path in (tmp_path / FOLDER).iterdir()}
    assert set(made) == {"worker_pb2.py", "worker_pb2.pyi", "worker_pb2_grpc.py"}
    for name, text in made.items():
        assert (house.ROOT / FOLDER / name).read_text() == text, f"{name}: run `make proto`"


@pytest.mark.parametrize("name", ["grpcio", "protobuf"])
def test_the_extra_asks_for_what_the_generated_modules_insist_on(name: str) -> None:
    text = (house.ROOT / FOLDER / "worker_pb2.py").read_text()
    protobuf = re.search(r"Protobuf Python Version: (\S+)", text)
    assert protobuf
    needed = {"protobuf": protobuf[1], "grpcio": worker_pb2_grpc.GRPC_GENERATED_VERSION}
    project = tomllib.loads((house.ROOT / "pyproject.toml").read_text())["project"]
    assert f"{name}>={needed[name]}" in project["optional-dependencies"]["grpc"]

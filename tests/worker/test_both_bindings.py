"""One outbox, two bindings: what was committed under one is delivered by the other, with the same meaning."""

from collections.abc import Iterator
from typing import Any

import pytest

from orbit_django import outbox
from orbit_django.conf import OrbitSettings
from orbit_django.contracts import read
from orbit_django.embedded.server import EmbeddedRuntime
from orbit_django.models import OutboxMessage
from orbit_django.outbox import Origin
from orbit_django.protocol import Assignment, Contract, Kind, Registration
from orbit_django.testing.transport import RecordingTransport
from orbit_django.worker.binding import open_transport
from orbit_django.worker.flush import flush
from tests.ledger import Desk, sent

pytestmark = [pytest.mark.databases, pytest.mark.django_db(transaction=True)]
FLOW = """
task "test.task" { version "1.0.0" input { n: Int } output { n: Int } }
workflow Count { version "1.0.0" input { n: Int } output { n: Int }
  step step { worker "test.task" with { n: input.n } }
  return { n: step.n } }
"""
BINDINGS = ("http", "grpc")


@pytest.fixture
def runtime() -> Iterator[EmbeddedRuntime]:
    with EmbeddedRuntime(read(FLOW), grpc_port=0) as runtime:
        yield runtime


def settings(runtime: EmbeddedRuntime, binding: str) -> OrbitSettings:
    return OrbitSettings(server=runtime.url, grpc_target=runtime.grpc_target, transport=binding, worker_id="tester")


def polled(runtime: EmbeddedRuntime, binding: str, number: int) -> Assignment:
    """Have an execution started and return its task."""
    with runtime.changing() as state:
        state.start("Count", {"n": number}, f"e-{number}")
    transport = open_transport(settings(runtime, binding))
    session = transport.register(Registration("tester", "python", (Contract("test.task", "1.0.0"),), "t/1"))
    found = transport.poll(session.session_id, 1_000)
    transport.close()
    assert found is not None
    return found


def commit(runtime: EmbeddedRuntime, binding: str, assignment: Assignment, output: int) -> OutboxMessage:
    """Run the handler as a worker over that binding does, and leave its message to whoever comes."""
    given = settings(runtime, binding)
    fields = {name: getattr(assignment, name) for name in ("token", "execution_id", "step_id", "idempotency_key")}
    said = {"server": given.server, "transport": binding, "grpc_target": given.grpc_target}
    check = open_transport(given).check_report
    message = Desk(lambda input, ctx: {"n": output}, settings=said, check_report=check).deliver(
        assignment.input, **fields
    )
    assert isinstance(message, OutboxMessage)
    outbox.renew(message, -5)
    OutboxMessage.objects.update(sender="")
    return message


def send_all(runtime: EmbeddedRuntime, binding: str) -> tuple[int, int]:
    """Do what `orbit_outbox flush` does over that binding; return how many were tried and are left."""
    given = settings(runtime, binding)
    transport = open_transport(given)
    try:
        return flush(transport, Origin("other", given.server, transport.name), ["default"], given.redact)
    finally:
        transport.close()


def output_of(runtime: EmbeddedRuntime, number: int) -> Any:
    with runtime.lock:
        return runtime.runtime.state.execution(f"e-{number}").output


@pytest.mark.promise("D1")
@pytest.mark.parametrize("earned", BINDINGS)
@pytest.mark.parametrize("sent_over", BINDINGS)
def test_a_message_earned_over_one_binding_goes_over_any(runtime: EmbeddedRuntime, earned: str, sent_over: str) -> None:
    commit(runtime, earned, polled(runtime, earned, 7), 2**53)
    assert send_all(runtime, sent_over) == (1, 0)
    assert OutboxMessage.objects.get().status == "delivered"
    assert output_of(runtime, 7) == {"n": 2**53}


@pytest.mark.promise("D1", "E2")
def test_a_number_beyond_waits_for_http_and_its_replay_over_grpc_says_why(runtime: EmbeddedRuntime) -> None:
    commit(runtime, "http", polled(runtime, "http", 8), 2**53 + 1)
    assert send_all(runtime, "grpc") == (1, 0)
    message = OutboxMessage.objects.get()
    assert (message.status, message.declined_by) == ("pending", "grpc")
    assert "$.n" in message.last_error
    assert send_all(runtime, "grpc") == (0, 0)

    given = settings(runtime, "grpc")
    again = Desk(lambda input, ctx: {}, check_report=open_transport(given).check_report).deliver(
        {"n": 8}, execution_id="e-8", step_id="step", idempotency_key="e-8/step", token="second", redelivery=True
    )
    assert (sent(again)["error_code"], sent(again)["retryable"]) == ("INVALID_RESULT", False)
    assert "$.n" in sent(again)["error_message"]
    OutboxMessage.objects.filter(token="second").delete()

    assert send_all(runtime, "http") == (1, 0)
    assert OutboxMessage.objects.get().status == "delivered"
    assert output_of(runtime, 8) == {"n": 2**53 + 1}


@pytest.mark.promise("E8")
def test_over_grpc_such_a_result_is_never_committed(runtime: EmbeddedRuntime) -> None:
    message = commit(runtime, "grpc", polled(runtime, "grpc", 9), 2**53 + 1)
    assert message.kind == Kind.FAIL
    assert sent(message)["error_code"] == "INVALID_RESULT"
    assert send_all(runtime, "grpc") == (1, 0)


def test_a_project_s_own_binding_has_a_name_as_well() -> None:
    assert RecordingTransport().name == "recording"

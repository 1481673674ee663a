"""Arguments of the client that are of another type than they should be: refused by name, before anything is sent."""

import uuid
from typing import Any

import pytest

from orbit_django.client import Client, start_on_commit
from orbit_django.conf import OrbitSettings
from orbit_django.exceptions import PayloadError
from orbit_django.models import WorkflowStart
from tests.transports import wire

ODD_IDS = [5, 0, b"x", uuid.UUID(int=5), ["e-1"], 1.5]


def client_of(server: wire.Server) -> Client:
    return Client(OrbitSettings(server=server.url))


@pytest.mark.parametrize("execution_id", ODD_IDS, ids=repr)
def test_an_id_that_is_no_text_is_refused_by_its_name(execution_id: Any) -> None:
    kind = type(execution_id).__name__
    with wire.serving() as server:
        client = client_of(server)
        calls = client.get, client.wait, client.cancel, lambda given: client.start("Pay", execution_id=given)
        for call in calls:
            with pytest.raises(PayloadError, match=rf"execution_id: is of type {kind}, expected a text"):
                call(execution_id)
    assert server.requests == []


@pytest.mark.parametrize("workflow", [5, None, b"Pay", ["Pay"]], ids=repr)
def test_a_workflow_that_is_no_text_is_refused_by_its_name(workflow: Any) -> None:
    with wire.serving() as server, pytest.raises(PayloadError, match=r"workflow: is of type \w+, expected a text"):
        client_of(server).start(workflow)
    assert server.requests == []


@pytest.mark.parametrize("seconds", [float("nan"), -1, -0.1])
def test_a_wait_of_no_length_is_refused(seconds: float) -> None:
    with wire.serving() as server, pytest.raises(ValueError, match="timeout_seconds: expected seconds from 0, found"):
        client_of(server).wait("e-1", timeout_seconds=seconds)
    assert server.requests == []


@pytest.mark.parametrize("execution_id", ODD_IDS, ids=repr)
def test_a_start_on_commit_refuses_an_id_that_is_no_text(db, execution_id: Any) -> None:
    kind = type(execution_id).__name__
    with pytest.raises(PayloadError, match=rf"execution_id: is of type {kind}, expected a text"):
        start_on_commit("Pay", execution_id=execution_id)
    assert not WorkflowStart.objects.exists()


@pytest.mark.parametrize("workflow", [5, None, b"Pay", ["Pay"]], ids=repr)
def test_a_start_on_commit_refuses_a_workflow_that_is_no_text(db, workflow: Any) -> None:
    with pytest.raises(PayloadError, match=r"workflow: is of type \w+, expected a text"):
        start_on_commit(workflow)

"""A worker that the runtime does not want: one line for a person, whatever there would be to send."""

from contextlib import closing
from pathlib import Path

import pytest

from orbit_django.client import start_on_commit
from orbit_django.contracts import read
from orbit_django.embedded.server import EmbeddedRuntime
from orbit_django.models import OutboxMessage, WorkflowStart
from tests.processes import ListeningFaults, Stage
from tests.worker.answering import owe
from tests.worker.staging import WORKFLOWS

pytestmark = [pytest.mark.promise("W8", "W9"), pytest.mark.databases]


def test_it_sends_nothing_and_says_one_line(child_environment: dict[str, str], tmp_path: Path) -> None:
    runtime = EmbeddedRuntime(
        read(WORKFLOWS), token="admin-token", worker_token="worker-token", faults=ListeningFaults()
    )
    with runtime, closing(Stage(runtime, child_environment, tmp_path)) as stage:
        owe(runtime.url, "w")
        start_on_commit("Charge", {"seconds": 0.0})
        worker = stage.worker("--worker-id", "w", ORBIT_WORKER_TOKEN="wrong-token-1", ORBIT_TOKEN="wrong-token-2")
        assert worker.exit_code(20) == 2

    shown = [line for line in worker.log().splitlines() if " INFO " not in line]
    assert len(shown) == 1, worker.log()
    assert shown[0].startswith("CommandError: the runtime refuses this worker: 401 UNAUTHENTICATED")
    assert "wrong-token" not in worker.log()
    assert set(OutboxMessage.objects.values_list("status", "attempts")) == {("pending", 0)}
    assert WorkflowStart.objects.get().status == "pending"

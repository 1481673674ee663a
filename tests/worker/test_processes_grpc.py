"""Worker processes over gRPC, under a supervisor: one of them dies, the others go on and end in order."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from orbit_django.contracts import read
from orbit_django.embedded.server import EmbeddedRuntime
from tests.processes import ListeningFaults, Stage, wait_for
from tests.testapp.models import Charge
from tests.transports.wire import closed_port
from tests.worker.staging import WORKFLOWS, begun
from tests.worker.test_processes import is_alive, pids, supervisor


@pytest.fixture
def stage(child_environment: dict[str, str], tmp_path: Path) -> Iterator[Stage]:
    """Yield a stage whose workers find the runtime over gRPC alone: nobody listens where SERVER leads."""
    runtime = EmbeddedRuntime(read(WORKFLOWS), session_timeout_ms=3_000, faults=ListeningFaults(), grpc_port=0)
    with runtime, closing(Stage(runtime, child_environment, tmp_path)) as made:
        made.environment |= {
            "ORBIT_SERVER": f"http://127.0.0.1:{closed_port()}",
            "ORBIT_TEST_GRPC_TARGET": str(runtime.grpc_target),
        }
        yield made


def losses(stage: Stage, execution_id: str) -> int:
    """Return how often a task was delivered again, since its holder was gone."""
    return len(stage.events(execution_id, "StepAttemptUncertain"))


@pytest.mark.promise("W1", "W5", "E2", "D1")
@pytest.mark.databases
def test_a_killed_process_is_replaced_and_the_rest_ends_in_order(stage: Stage) -> None:
    worker = supervisor(stage, 2, "--transport", "grpc", "--concurrency", "1")
    for name in ("first", "second"):
        stage.start(name, seconds=1.0)
    begun(stage)
    victim = int(stage.notes("begin")[0].split()[2])
    os.kill(victim, signal.SIGKILL)

    assert [stage.end_of(name)["status"] for name in ("first", "second")] == ["COMPLETED", "COMPLETED"]
    assert sorted(losses(stage, name) for name in ("first", "second")) == [0, 1]
    wait_for(lambda: len(stage.faults.times("register")) == 3, 20)
    started = pids(worker)
    assert (len(started), victim in started[:2]) == (3, True)
    assert f"child_pid={victim} exit_code=-9" in worker.log()

    stage.start("last", seconds=1.0)
    begun(stage, 4)
    sent_at = worker.signal()
    assert worker.exit_code() == 0
    assert time.monotonic() - sent_at < 4
    assert (stage.view("last")["status"], losses(stage, "last")) == ("COMPLETED", 0)
    assert len(stage.faults.times("unregister")) == 2
    assert Charge.objects.count() == 3
    assert not any(map(is_alive, started))


@pytest.mark.promise("W1", "W5")
def test_processes_end_in_order_when_their_supervisor_was_killed(stage: Stage) -> None:
    worker = supervisor(stage, 2, "--transport", "grpc")
    stage.start("long", seconds=1.0)
    begun(stage)
    worker.kill()

    wait_for(lambda: not any(map(is_alive, pids(worker))))
    assert (stage.view("long")["status"], losses(stage, "long")) == ("COMPLETED", 0)
    assert len(stage.faults.times("unregister")) == 2

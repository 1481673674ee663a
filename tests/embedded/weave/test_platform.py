"""The state machine alone: no socket, no thread, and a clock that stands still."""

import subprocess
import sys
from typing import Any

import pytest

from orbit_django.clock import FixedClock
from orbit_django.embedded.store import MemoryStore
from orbit_django.embedded.weave.access import Caller
from orbit_django.embedded.weave.platform import SCOPE, Platform
from orbit_django.embedded.weave.problems import ProblemError
from tests import house
from tests.embedded.weave.scene import DIGEST, MAIL, capability


class Desk:
    def __init__(self, store: MemoryStore | None = None, clock: FixedClock | None = None) -> None:
        self.store, self.clock = store or MemoryStore(), clock or FixedClock()
        self.platform = Platform(store=self.store, clock=self.clock)
        self.worker = Caller(self.platform.access.named("worker"), SCOPE)
        self.deployer = Caller(self.platform.access.named("deployer"), SCOPE)

    def instance(self) -> str:
        body = {"image_digest": DIGEST, "capabilities": [capability()]}
        body |= {"credential_capabilities": [], "connector_bindings": []}
        release = self.platform.releases.admit(self.deployer, body)
        body = {"release_id": release["id"], "task_types": [MAIL], "capacity": 1}
        return str(self.platform.releases.register(self.worker, body)["id"])

    def claim(self, worker_id: str) -> list[dict[str, Any]]:
        return self.platform.leases.claim(self.worker, {"worker_id": worker_id, "limit": 1})


def test_a_task_runs_its_course() -> None:
    desk = Desk()
    worker_id = desk.instance()
    task_id = desk.platform.work.create_task(MAIL, {"n": 1})
    (lease,) = desk.claim(worker_id)
    desk.clock.advance(14)
    desk.platform.leases.heartbeat(desk.worker, lease["proof"])
    desk.clock.advance(14)
    body = {"lease": lease["proof"], "completion_id": task_id, "output": 1}

    assert desk.platform.settlement.complete(desk.worker, body)["status"] == "completed"
    assert desk.platform.views.task(task_id)["run"]["status"] == "completed"


def test_everything_is_found_again_in_the_store() -> None:
    desk = Desk()
    worker_id = desk.instance()
    desk.platform.work.create_task(MAIL)
    (lease,) = desk.claim(worker_id)
    again = Desk(desk.store, desk.clock)

    assert again.platform.views.tasks() == desk.platform.views.tasks()
    assert again.platform.views.instances() == desk.platform.views.instances()
    assert again.platform.leases.heartbeat(again.worker, lease["proof"])["proof"] == lease["proof"]
    again.clock.advance(15)
    assert again.platform.recovery.step() == 1


def test_what_is_refused_is_not_stored() -> None:
    desk = Desk()
    worker_id = desk.instance()
    desk.platform.work.create_task(MAIL, output_schema={"type": "string"})
    (lease,) = desk.claim(worker_id)
    before = len(list(desk.store.events()))
    body = {"lease": lease["proof"], "completion_id": worker_id, "output": 1}
    with pytest.raises(ProblemError, match="422 WV-VALIDATION"):
        desk.platform.settlement.complete(desk.worker, body)
    assert len(list(desk.store.events())) == before


def test_the_state_machine_loads_neither_django_nor_a_network() -> None:
    code = (
        "import sys, orbit_django.embedded.weave.platform\n"
        "print([name for name in ('django', 'http.server', 'socketserver', 'requests') if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], cwd=house.ROOT, capture_output=True, text=True, check=True)
    assert result.stdout == "[]\n"

"""A worker process through every kind of fault: each execution ends as it should, with one effect."""

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from orbit_django.contracts import read
from orbit_django.embedded.faults import KINDS
from orbit_django.embedded.listener import ClosedError
from orbit_django.embedded.server import EmbeddedRuntime
from tests.processes import ListeningFaults, Stage, wait_for
from tests.testapp.models import Charge
from tests.worker.staging import WORKFLOWS

# Which call each kind meets, and with which value; times are short.
FAULTS: list[tuple[str, str, Any]] = [
    ("lost", "register", None),
    ("lost", "assignment", None),
    ("lost", "heartbeat", None),
    ("lost", "complete", None),
    ("drop", "poll", None),
    ("drop", "complete", None),
    ("refuse", "poll", 200),
    ("refuse", "complete", 200),
    ("restart", "poll", 100),
    ("restart", "complete", 100),
    ("status", "complete", 500),
    ("html", "complete", 502),
    ("text", "poll", 400),
    ("leader", "poll", None),
    ("leader", "complete", None),
    ("answer", "complete", {}),
    ("hold", "complete", 200),
    ("delay", "complete", 200),
    ("timeout", "register", 2_000),
    ("expire", "poll", None),
    ("expire", "heartbeat", None),
    ("expire", "complete", None),
    ("duplicate", "assignment", None),
    ("garbage", "assignment", None),
    ("garbage", "complete", None),
    ("cut", "assignment", None),
    ("cut", "complete", None),
    ("empty", "assignment", None),
    ("empty", "complete", None),
    ("set", "assignment", {"deadline_ms": 5}),
    ("set", "complete", {"accepted": False, "reason": "because"}),
    ("texts", "*", None),
    ("extra", "*", None),
    ("version", "*", None),
]
ELSEWHERE = {"redirect", "stray"}  # the first holds polls up for 5 s, the second ends the execution, as they should


def has_started(stage: Stage, name: str) -> bool:
    """Start an execution, unless the runtime is being restarted at this moment."""
    try:
        stage.start(name)
    except ClosedError:
        return False
    return True


@pytest.mark.promise("E2", "E7", "D1")
@pytest.mark.django_db(transaction=True)
def test_one_effect_for_each_execution(child_environment: dict[str, str], tmp_path: Path) -> None:
    runtime = EmbeddedRuntime(read(WORKFLOWS), session_timeout_ms=3_000, faults=ListeningFaults())
    with runtime, closing(Stage(runtime, child_environment, tmp_path)) as stage:
        worker = stage.idle_worker("--concurrency", "2")
        for number, (kind, call, value) in enumerate(FAULTS):
            name = f"{number}-{kind}-{call}"
            fault = stage.faults.add(kind, call, value=value)
            if call == "register":
                stage.faults.add("expire", "poll")
            wait_for(lambda started=name: has_started(stage, started))
            assert stage.end_of(name)["status"] == "COMPLETED", name
            wait_for(lambda struck=fault: not struck.times and not runtime.is_away)
        worker.signal()

        assert worker.exit_code() == 0, worker.log()
    assert sorted(Charge.objects.values_list("key", flat=True)) == sorted(
        f"{number}-{kind}-{call}/only" for number, (kind, call, _) in enumerate(FAULTS)
    )


def test_every_kind_is_met() -> None:
    assert {kind for kind, _, _ in FAULTS} | ELSEWHERE == set(KINDS)

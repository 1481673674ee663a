"""Inputs that no JSON reader takes, and some that look so: each ends its own step, and nothing else."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from orbit_django.contracts import read
from orbit_django.embedded.answers import Answer, Host, Request
from orbit_django.embedded.server import EmbeddedRuntime
from orbit_django.models import IdempotencyRecord, OutboxMessage
from tests.processes import ListeningFaults, Stage
from tests.worker.staging import WORKFLOWS

pytestmark = [pytest.mark.promise("E7"), pytest.mark.databases]

INPUTS = {
    "deep": '{"seconds": 0.0, "more": ' + "[" * 100_000 + "]" * 100_000 + "}",
    "digits": '{"seconds": 0.0, "more": ' + "1" * 5_000 + "}",
    "nan": '{"seconds": NaN}',
    "surrogate": '{"seconds": 0.0, "more": "\\ud800"}',
    "twice": '{"seconds": 7.0, "seconds": 0.0}',
    "infinite": '{"seconds": 0.0, "more": 1e999}',
}
HOPELESS = ("deep", "digits", "nan")


class OddInputs(ListeningFaults):
    """Gives each task the text of its execution's input in place of the real one."""

    def after(self, request: Request, answer: Answer, host: Host) -> Answer:
        answer = super().after(request, answer, host)
        for name, text in INPUTS.items():
            if request.call == "poll" and f'"execution_id":"{name}"'.encode() in answer.body:
                body = answer.body.replace(b'"input":{"seconds":0.0}', f'"input":{text}'.encode())
                assert body != answer.body
                return replace(answer, body=body)
        return answer


@pytest.fixture
def stage(child_environment: dict[str, str], tmp_path: Path) -> Iterator[Stage]:
    runtime = EmbeddedRuntime(read(WORKFLOWS), faults=OddInputs())
    with runtime, closing(Stage(runtime, child_environment, tmp_path)) as made:
        yield made


def test_an_input_that_nobody_can_read_ends_its_step_and_the_session_lives_on(stage: Stage) -> None:
    worker = stage.idle_worker()
    for name in INPUTS:
        stage.start(name)
    ended = {name: stage.end_of(name) for name in INPUTS}

    assert {name: end["status"] for name, end in ended.items()} == {
        name: "FAILED" if name in HOPELESS else "COMPLETED" for name in INPUTS
    }
    for name in HOPELESS:
        assert "INVALID_INPUT" in str(ended[name]["error"])
        assert "the input cannot be read" in str(ended[name]["error"])
        assert len(stage.events(name, "StepDispatched")) == 1
        assert len(OutboxMessage.objects.get(execution_id=name).body) < 1_000
    assert len(stage.faults.times("register")) == 1
    assert IdempotencyRecord.objects.count() == len(INPUTS) - len(HOPELESS)
    assert "Traceback" not in worker.log()

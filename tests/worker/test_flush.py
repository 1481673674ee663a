import io
from collections.abc import Iterator

import pytest
from django.core.management import CommandError, call_command

from orbit_django.embedded.faults import Faults
from orbit_django.embedded.server import EmbeddedRuntime
from orbit_django.starts import Status
from tests.worker.starting import CONTRACT, TOKEN, ask, executions, stored

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.databases]


@pytest.fixture
def faults() -> Faults:
    return Faults()


@pytest.fixture
def runtime(faults: Faults) -> Iterator[EmbeddedRuntime]:
    with EmbeddedRuntime([CONTRACT], token=TOKEN, worker_token="wrk", faults=faults) as runtime:
        yield runtime


def outbox(action: str) -> tuple[str, str]:
    out, err = io.StringIO(), io.StringIO()
    try:
        call_command("orbit_outbox", action, stdout=out, stderr=err)
    except CommandError as error:
        return out.getvalue() + err.getvalue(), str(error)
    return out.getvalue() + err.getvalue(), ""


@pytest.mark.promise("D1")
def test_a_flush_sends_starts_too(settings, runtime: EmbeddedRuntime, faults: Faults) -> None:
    settings.ORBIT = {"SERVER": runtime.url, "TOKEN": TOKEN, "WORKER_TOKEN": "wrk"}
    ask("e-1")
    ask("e-2")
    faults.add("lost", "other")

    said, error = outbox("flush")
    assert "2 sent, 1 left" in said
    assert "1 workflow could not be started now" in error
    assert outbox("flush") == ("1 sent, 0 left\n", "")
    assert executions(runtime) == ["e-1", "e-2"]
    assert "starts of workflows: 0 pending, 2 started, 0 refused, 0 blocked" in outbox("status")[0]


def test_a_flush_tells_of_what_it_has_set_aside(settings, runtime: EmbeddedRuntime) -> None:
    settings.ORBIT = {"SERVER": runtime.url, "TOKEN": "not that one", "WORKER_TOKEN": "wrk"}
    ask()

    said, error = outbox("flush")
    assert (stored().status, error) == (Status.BLOCKED, "")
    assert "1 workflow start blocked: mend what the admin shows, then orbit_outbox retry" in said


def test_a_flush_without_the_token_says_what_waits(settings, runtime: EmbeddedRuntime) -> None:
    settings.ORBIT = {"SERVER": runtime.url, "WORKER_TOKEN": "wrk"}
    ask()

    said, error = outbox("flush")
    assert said == "0 sent, 1 left\n"
    assert "set TOKEN" in error
    assert stored().status == Status.PENDING


@pytest.mark.promise("D2")
def test_a_flush_with_a_token_that_the_runtime_does_not_know(settings, runtime: EmbeddedRuntime) -> None:
    settings.ORBIT = {"SERVER": runtime.url, "TOKEN": "wrong-SECRET"}
    ask()
    outbox("flush")

    assert (stored().status, stored().last_status) == (Status.BLOCKED, 401)
    assert "1 blocked" in outbox("status")[0]

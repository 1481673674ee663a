from typing import Any

import pytest

from orbit_django.conf import OrbitSettings
from orbit_django.doctor.examination import examine
from orbit_django.doctor.findings import Finding, Level
from orbit_django.doctor.registration import look_at_registration
from orbit_django.embedded.server import EmbeddedRuntime
from orbit_django.embedded.views import workers_view
from orbit_django.protocol import Contract
from orbit_django.tasks import Registry, Task

CHARGE = Contract("test.charge", "1.0.0")
BINDINGS = pytest.mark.parametrize("transport", ["http", "grpc"])


def looked(runtime: EmbeddedRuntime, *contracts: Contract, **settings: Any) -> list[Finding]:
    given = {"server": runtime.url, "grpc_target": runtime.grpc_target, "worker_token": "wrk-SECRET"} | settings
    found = list(look_at_registration(OrbitSettings(**given), contracts))
    assert {finding.about for finding in found} == {"registration"}
    assert "SECRET" not in str(found)
    return found


@BINDINGS
def test_what_a_worker_announces_is_announced_and_the_session_given_back(
    runtime: EmbeddedRuntime, transport: str
) -> None:
    (found,) = looked(runtime, CHARGE, transport=transport, worker_id="shop-9")

    assert (found.level, found.text) == (Level.OK, "the worker 'shop-9' is let in with 1 task")
    assert [call.name for call in runtime.faults.calls] == ["register", "unregister"]
    with runtime.lock:
        (listed,) = workers_view(runtime.runtime)
    assert (listed["worker_id"], listed["online"]) == ("shop-9", False)


@BINDINGS
@pytest.mark.parametrize(
    ("worker_id", "contract", "words"),
    [("shop-2", CHARGE, "belongs to worker `shop-1`"), ("shop-1", Contract("other.task", "1"), "may not serve")],
)
def test_an_identity_that_is_not_for_this_worker(
    runtime: EmbeddedRuntime, transport: str, worker_id: str, contract: Contract, words: str
) -> None:
    given = {"transport": transport, "worker_token": "wrk-IDENTITY", "worker_id": worker_id}
    (found,) = looked(runtime, contract, **given)
    assert (found.level, "403 FORBIDDEN" in found.text, words in found.text) == (Level.WRONG, True, True), found
    assert "workers file" in found.advice


def test_the_runtimes_warnings_are_told(runtime: EmbeddedRuntime) -> None:
    taken, warning = looked(runtime, Contract("test.charge", "9.9.9"))
    assert (taken.level, warning.level) == (Level.OK, Level.NOTE)
    assert "9.9.9" in warning.text


@pytest.mark.promise("W8")
def test_without_a_task_nothing_is_registered(runtime: EmbeddedRuntime) -> None:
    (found,) = looked(runtime)
    assert found.level is Level.NOTE
    assert runtime.faults.calls == []


def test_a_runtime_that_is_away_and_a_session_that_cannot_be_closed(runtime: EmbeddedRuntime) -> None:
    runtime.faults.add("status", "unregister", value=(500, "INTERNAL"))
    taken, left = looked(runtime, CHARGE)
    assert (taken.level, left.level, "within 30 s" in left.text) == (Level.OK, Level.NOTE, True)
    runtime.stop()
    (found,) = looked(runtime, CHARGE)
    assert (found.level, found.advice[:12]) == (Level.WRONG, "workers wait")


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("is_registering", [True, False])
@BINDINGS
def test_it_is_made_when_it_is_asked_for(
    runtime: EmbeddedRuntime, settings: Any, transport: str, is_registering: bool
) -> None:
    settings.ORBIT = {"SERVER": runtime.url, "GRPC_TARGET": runtime.grpc_target, "WORKER_TOKEN": "wrk-SECRET"}
    registry = Registry()
    registry.add(Task(CHARGE, function=lambda input: {}))
    found = list(examine(registry, is_registering=is_registering, transport=transport))

    assert ("registration" in {finding.about for finding in found}) is is_registering
    assert [call.name for call in runtime.faults.calls].count("register") == is_registering

from orbit_django.embedded import views
from tests.embedded.test_runtime import GOOD
from tests.embedded.world import World


def test_an_execution_on_its_way(world: World) -> None:
    world.held()

    assert views.execution_view(world.execution()) == {
        "id": "e-1",
        "workflow": "Greet",
        "version": "1.0.0",
        "created_at_ms": 1_700_000_000_000,
        "input": {"name": "Ada"},
        "status": "RUNNING",
        "steps": [{"step": "compose", "status": "IN_FLIGHT", "attempt": 1, "worker_id": "w-1"}],
    }


def test_output_and_error_are_there_when_they_are(world: World) -> None:
    session, task = world.held()
    world.runtime.complete(task["token"], GOOD)
    world.greet("e-2")
    world.fail(world.task(session)["token"], "X", retryable=False)
    failed, completed = views.executions_view(world.runtime)

    assert (completed["output"], "error" in completed) == (GOOD, False)
    assert (failed["error"]["code"], "output" in failed) == ("X", False)
    assert failed["steps"][0]["error"] == {"code": "X", "message": "said", "retryable": False}


def test_the_history_has_names_times_and_members(world: World) -> None:
    world.greet()

    assert views.history_view(world.runtime, "e-1")[1] == {
        "event": "StepScheduled",
        "at_ms": 1_700_000_000_000,
        "step": "compose",
        "attempt": 1,
        "input": {"name": "Ada"},
        "idempotency_key": "e-1/compose",
        "redelivery": False,
    }


def test_workers_are_listed_after_they_left(world: World) -> None:
    session, _ = world.held()
    world.session()
    contracts = [{"task_name": "greeting.compose", "contract_version": "1.0.0"}]
    shown = {
        "worker_id": "w-1",
        "runtime": "ruby",
        "sdk": None,
        "contracts": contracts,
        "last_contact_ms": 1_700_000_000_000,
        "online": True,
        "sessions": 2,
        "in_flight": 1,
    }
    assert views.workers_view(world.runtime) == [shown]

    world.runtime.unregister(session)
    world.passes(6)
    assert views.workers_view(world.runtime) == [shown | {"online": False, "sessions": 0, "in_flight": 0}]

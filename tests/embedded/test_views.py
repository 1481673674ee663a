from orbit_django.embedded import views
from tests.contracts.texts import GREET
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


def test_executions_by_number_and_status(world: World) -> None:
    for name in ("a", "b", "c"):
        world.greet(name)
    world.runtime.cancel("b")

    assert [view["id"] for view in views.executions_view(world.runtime, limit=2)] == ["c", "b"]
    assert [view["id"] for view in views.executions_view(world.runtime, status="RUNNING")] == ["c", "a"]
    assert views.statuses_view(world.runtime) == {"RUNNING": 2, "CANCELLED": 1}


def test_what_happened_is_counted_over_restarts(world: World) -> None:
    session, first = world.held()
    world.runtime.unregister(session)
    second = world.task(world.session())
    world.runtime.complete(second["token"], {"wrong": 1})
    world.greet("e-2")
    world.fail(world.task(world.session())["token"])
    world.restart(GREET)
    counters = views.counters_view(world.runtime)

    assert {name: count for name, count in counters.items() if count} == {
        "executions_started": 2,
        "executions_failed": 1,
        "tasks_dispatched": 3,
        "task_attempts_failed": 2,
        "task_attempts_uncertain": 1,
        "retries_scheduled": 1,
    }
    assert first["attempt"] == second["attempt"]

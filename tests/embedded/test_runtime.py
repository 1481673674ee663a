from typing import Any

import pytest

from orbit_django.embedded.callers import Caller, Identity
from orbit_django.exceptions import RuntimeRefusalError
from tests.contracts.texts import GREET, ORDER
from tests.embedded.world import World, registration

UNKNOWN = {"accepted": False, "reason": "unknown token (execution finished or token invalid)"}
DUPLICATE = {"accepted": False, "reason": "duplicate result; step already resolved"}
STALE = {"accepted": False, "reason": "stale attempt"}
VIOLATION = {"accepted": False, "reason": "output violates the task contract"}
ACCEPTED = {"accepted": True}
GOOD = {"message": "Hello, Ada"}


def refused(call: Any, *args: Any, **options: Any) -> tuple[int, str]:
    with pytest.raises(RuntimeRefusalError) as caught:
        call(*args, **options)
    return caught.value.status, caught.value.code


def test_register_answers_with_session_interval_and_timeout(world: World) -> None:
    answer = world.runtime.register(registration())

    assert answer.pop("worker_session_id")
    assert answer == {
        "accepted": True,
        "heartbeat_interval_ms": 1_000,
        "session_timeout_ms": 6_000,
        "warnings": [],
    }


def test_every_registration_opens_a_session_of_its_own(world: World) -> None:
    assert world.session() != world.session()
    assert len(list(world.runtime.sessions)) == 2


def test_the_assignment(world: World) -> None:
    _, task = world.held()

    assert task.pop("token")
    assert task == {
        "execution_id": "e-1",
        "workflow": "Greet",
        "workflow_version": "1.0.0",
        "step_id": "compose",
        "task_name": "greeting.compose",
        "contract_version": "1.0.0",
        "input": {"name": "Ada"},
        "idempotency_key": "e-1/compose",
        "attempt": 1,
        "redelivery": False,
        "deadline_ms": 1_700_000_030_000,
        "timeout_ms": 30_000,
    }


def test_without_a_timeout_there_is_no_deadline() -> None:
    world = World(ORDER)
    session = world.session("w", "go", ("shop.price", "1.0.0"))
    world.runtime.start("Order", {"order": "o", "item": "i"})

    assert world.task(session).keys().isdisjoint({"deadline_ms", "timeout_ms"})


@pytest.mark.parametrize(
    ("runtime", "contract", "is_served"),
    [
        ("ruby", ("greeting.compose", "1.0.0"), True),
        ("RUBY", ("greeting.compose", "1.0.0"), True),
        ("python", ("greeting.compose", "1.0.0"), False),
        ("ruby", ("greeting.compose", "1.0"), False),
        ("ruby", ("greeting.Compose", "1.0.0"), False),
    ],
)
def test_a_step_matches_name_version_and_runtime(
    world: World, runtime: str, contract: tuple[str, str], is_served: bool
) -> None:
    session = world.session("w", runtime, contract)
    world.greet()

    assert (world.runtime.poll(session) is not None) is is_served


def test_the_oldest_step_goes_first(world: World) -> None:
    session = world.session()
    for name in ("b", "a", "c"):
        world.greet(name)

    assert [world.task(session)["execution_id"] for _ in range(3)] == ["b", "a", "c"]
    assert world.runtime.poll(session) is None


def test_a_success_completes_the_execution(world: World) -> None:
    _, task = world.held()

    assert world.runtime.complete(task["token"], GOOD) == ACCEPTED
    assert (world.execution().status, world.execution().output) == ("COMPLETED", GOOD)
    assert world.events() == [
        "WorkflowStarted",
        "StepScheduled",
        "StepDispatched",
        "StepSucceeded",
        "WorkflowCompleted",
    ]


def test_tokens_of_a_finished_execution_and_strange_ones_are_unknown(world: World) -> None:
    _, task = world.held()
    world.runtime.complete(task["token"], GOOD)

    assert world.runtime.complete(task["token"], GOOD) == UNKNOWN
    assert world.fail(task["token"]) == UNKNOWN
    assert world.runtime.complete("never-issued") == UNKNOWN


def test_a_second_result_while_the_execution_goes_on_is_a_duplicate() -> None:
    world = World(ORDER)
    session = world.session("w", "go", ("shop.price", "1.0.0"))
    world.runtime.start("Order", {"order": "o", "item": "i"}, "e-1")
    token = world.task(session)["token"]
    assert world.runtime.complete(token, {"amount": 1.5}) == ACCEPTED

    assert world.runtime.complete(token, {"amount": 1.5}) == DUPLICATE
    assert world.fail(token) == DUPLICATE
    assert world.events().count("StaleResultIgnored") == 2


def test_an_output_that_breaks_the_contract_fails_the_execution(world: World) -> None:
    _, task = world.held()

    assert world.runtime.complete(task["token"], {"msg": 1}) == VIOLATION
    assert world.execution().status == "FAILED"
    assert world.execution().error == {
        "code": "OUTPUT_CONTRACT_VIOLATION",
        "message": (
            "worker output for `greeting.compose` does not match its contract at "
            "$.message: missing required field `message` of type String"
        ),
    }


@pytest.mark.parametrize("output", [None, {}, [], "text"])
def test_no_output_counts_as_an_empty_one(world: World, output: Any) -> None:
    _, task = world.held()

    assert world.runtime.complete(task["token"], output) == VIOLATION


def test_a_wrong_output_of_an_older_delivery_does_not_end_the_step(world: World) -> None:
    session, first = world.held()
    world.runtime.unregister(session)
    second = world.task(world.session("w-2"))

    assert world.runtime.complete(first["token"], {"msg": 1}) == VIOLATION
    assert world.runtime.complete(second["token"], GOOD) == ACCEPTED


def test_empty_tokens_and_codes_are_refused(world: World) -> None:
    _, task = world.held()

    assert refused(world.runtime.complete, "") == (400, "INVALID_REQUEST")
    assert refused(world.fail, "") == (400, "INVALID_REQUEST")
    assert refused(world.fail, task["token"], "") == (400, "INVALID_REQUEST")


@pytest.mark.parametrize("call", ["poll", "heartbeat", "unregister"])
def test_an_unknown_session(world: World, call: str) -> None:
    with pytest.raises(RuntimeRefusalError) as caught:
        getattr(world.runtime, call)("nobody")

    text = "unknown worker session" if call == "unregister" else "unknown or expired worker session; register again"
    assert (caught.value.status, caught.value.code, caught.value.message) == (404, "UNKNOWN_SESSION", text)


def test_another_identity_may_use_neither_session_nor_token(world: World) -> None:
    session, task = world.held()
    other = Caller(is_admin=False, identity=Identity("w-2", ("*",), "0" * 64))

    for call in (world.runtime.poll, world.runtime.heartbeat, world.runtime.unregister):
        assert refused(call, session, other) == (403, "FORBIDDEN")
    assert refused(world.runtime.complete, task["token"], GOOD, other) == (403, "FORBIDDEN")
    assert world.runtime.complete("never-issued", GOOD, other) == UNKNOWN


def test_starting_twice_with_one_id(world: World) -> None:
    start = world.runtime.start

    assert start("Greet", {"name": "Ada"}, "e-1") == {"execution_id": "e-1", "created": True}
    assert start("Greet", {"name": "Ada"}, "e-1") == {"execution_id": "e-1", "created": False}
    assert refused(start, "Greet", {"name": "Bob"}, "e-1") == (409, "EXECUTION_EXISTS")
    assert world.events() == ["WorkflowStarted", "StepScheduled"]

    world.restart(GREET + GREET[GREET.index("workflow") :].replace("Greet", "Welcome"))
    assert refused(world.runtime.start, "Welcome", {"name": "Ada"}, "e-1") == (409, "EXECUTION_EXISTS")


def test_an_id_is_made_when_none_is_given(world: World) -> None:
    first, second = (world.runtime.start("Greet", {"name": "Ada"}) for _ in range(2))

    assert first["execution_id"] != second["execution_id"]


def test_what_cannot_be_started(world: World) -> None:
    assert refused(world.runtime.start, "Nope") == (404, "UNKNOWN_WORKFLOW")
    assert refused(world.runtime.start, "Greet", {"name": "Ada"}, version="2.0.0") == (404, "UNKNOWN_WORKFLOW")
    assert refused(world.runtime.start, "Greet", {}) == (400, "INVALID_REQUEST")
    assert refused(world.runtime.state.execution, "e-1") == (404, "UNKNOWN_EXECUTION")


@pytest.mark.parametrize(
    ("name", "version", "said"),
    [
        ("Great", None, "no workflow `Great` is registered; did you mean `Greet`?"),
        ("Order", None, "no workflow `Order` is registered; known are `Greet`"),
        ("Greet", "1.1.0", "no version 1.1.0 of workflow `Greet` is registered; did you mean `1.0.0`?"),
    ],
)
def test_an_unknown_workflow_comes_with_those_there_are(
    world: World, name: str, version: str | None, said: str
) -> None:
    with pytest.raises(RuntimeRefusalError) as caught:
        world.runtime.start(name, version=version)
    since = "; contracts are read when the runtime starts, so start it again after a change of CONTRACTS"
    assert caught.value.message == said + since

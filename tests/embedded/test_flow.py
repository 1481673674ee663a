from tests.contracts.texts import GREET, ORDER
from tests.embedded.test_runtime import ACCEPTED, DUPLICATE, GOOD, UNKNOWN
from tests.embedded.world import World

PRICE, STOCK, CHARGE = ("shop.price", "1.0.0"), ("shop.stock", "2.0.0"), ("shop.charge", "1.0.0")


def order(text: str = ORDER) -> tuple[World, str]:
    world = World(text)
    world.runtime.start("Order", {"order": "o-7", "item": "pen"}, "e-1")
    return world, world.session("w-1", "python", PRICE, STOCK, CHARGE)


def test_independent_steps_run_side_by_side_and_the_third_waits() -> None:
    world, session = order()
    price, stock = world.task(session), world.task(session)
    assert (price["step_id"], stock["step_id"]) == ("price", "stock")
    assert world.runtime.poll(session) is None

    world.runtime.complete(stock["token"], {"left": 3})
    assert world.runtime.poll(session) is None
    world.runtime.complete(price["token"], {"amount": 2.5})
    charge = world.task(session)

    assert charge["input"] == {"order": "o-7", "amount": 2.5, "left": 3, "currency": "EUR"}
    assert charge["idempotency_key"] == "o-7"
    world.runtime.complete(charge["token"], {"charge": "c-1"})
    assert (world.execution().status, world.execution().output) == ("COMPLETED", {"charge": "c-1", "amount": 2.5})


def test_an_input_that_breaks_the_contract_fails_the_execution() -> None:
    world, session = order(ORDER.replace("left: stock.left", "left: price.amount"))
    world.runtime.complete(world.task(session)["token"], {"amount": 2.5})

    assert world.execution().error == {
        "code": "INPUT_CONTRACT_VIOLATION",
        "message": "input for `shop.charge` does not match its contract at $.left: expected Int, found Float",
    }


def test_a_failed_step_asks_the_others_to_stop_and_waits_for_them() -> None:
    world, session = order()
    price, stock = world.task(session), world.task(session)
    world.fail(price["token"], "NO_PRICE")

    assert world.execution().status == "RUNNING"
    assert world.runtime.heartbeat(session)["cancel"] == [stock["token"]]
    assert world.runtime.complete(stock["token"], {"left": 3}) == ACCEPTED
    assert (world.execution().status, world.execution().steps["charge"].status) == ("FAILED", "CANCELLED")
    assert world.execution().error == {"code": "NO_PRICE", "message": "step `price` failed: said"}


def test_an_aborting_execution_retries_nothing_and_delivers_nothing_again() -> None:
    world, session = order(ORDER.replace('worker "shop.stock"', 'worker "shop.stock" retry { attempts: 9 }'))
    price, stock = world.task(session), world.task(session)
    world.fail(price["token"], "NO_PRICE")

    assert world.fail(stock["token"]) == ACCEPTED
    assert world.execution().status == "FAILED"
    assert world.fail(stock["token"]) == UNKNOWN


def test_the_end_of_a_session_ends_what_an_aborting_execution_waits_for() -> None:
    world, session = order()
    price, _ = world.task(session), world.task(session)
    world.fail(price["token"], "NO_PRICE")
    world.runtime.unregister(session)

    assert world.execution().status == "FAILED"


def test_cancelling_waits_for_the_attempt_in_flight(world: World) -> None:
    session, task = world.held()
    assert world.runtime.cancel("e-1", "customer withdrew").status == "RUNNING"

    assert world.runtime.heartbeat(session)["cancel"] == [task["token"]]
    assert world.runtime.heartbeat(session)["cancel"] == []
    assert world.runtime.complete(task["token"], GOOD) == ACCEPTED
    assert world.execution().status == "CANCELLED"
    assert world.execution().error == {"code": "CANCELLED", "message": "customer withdrew"}


def test_a_failure_after_the_cancellation_is_accepted_and_not_retried(world: World) -> None:
    _, task = world.held()
    world.runtime.cancel("e-1")

    assert world.fail(task["token"]) == ACCEPTED
    assert world.execution().status == "CANCELLED"


def test_what_waits_for_a_worker_is_cancelled_at_once(world: World) -> None:
    world.greet()

    assert world.runtime.cancel("e-1").status == "CANCELLED"
    assert world.runtime.poll(world.session()) is None


def test_what_waits_for_its_retry_is_cancelled_at_once(world: World) -> None:
    session, task = world.held()
    world.fail(task["token"])
    world.runtime.cancel("e-1")
    world.passes(1)

    assert world.runtime.poll(session) is None
    assert world.execution().status == "CANCELLED"


def test_cancelling_twice_tells_once(world: World) -> None:
    session, task = world.held()
    world.runtime.cancel("e-1", "first")
    world.runtime.cancel("e-1", "second")

    assert world.runtime.heartbeat(session)["cancel"] == [task["token"]]
    assert world.events().count("CancelRequested") == 1


def test_cancelling_what_is_over_changes_nothing(world: World) -> None:
    _, task = world.held()
    world.runtime.complete(task["token"], GOOD)

    assert world.runtime.cancel("e-1").status == "COMPLETED"


def test_a_deadline_ends_what_a_cancelled_execution_waits_for(world: World) -> None:
    session, _ = world.held()
    world.runtime.cancel("e-1")
    for _ in range(6):
        world.runtime.heartbeat(session)
        world.passes(5)

    assert world.execution().status == "CANCELLED"


def test_a_cancelled_step_is_resolved_while_others_are_in_flight() -> None:
    world, session = order()
    price, _ = world.task(session), world.task(session)
    world.runtime.complete(price["token"], {"amount": 1.0})
    world.runtime.cancel("e-1")

    assert world.runtime.complete(price["token"], {"amount": 1.0}) == DUPLICATE


def test_a_workflow_without_steps_completes_at_once() -> None:
    world = World('workflow W { version "1" output { a: Int } return { a: 1 } }')
    world.runtime.start("W", {}, "e-1")

    assert (world.execution().status, world.execution().output) == ("COMPLETED", {"a": 1})


def test_an_output_of_the_workflow_that_breaks_its_declaration() -> None:
    world = World('workflow W { version "1" input { a: Float } output { a: Int } return { a: input.a } }')
    world.runtime.start("W", {"a": 1.5}, "e-1")

    assert world.execution().error == {
        "code": "OUTPUT_CONTRACT_VIOLATION",
        "message": "output of workflow `W` does not match its declaration at $.a: expected Int, found Float",
    }


def test_steps_without_using_go_to_any_runtime() -> None:
    world = World(GREET.replace("using ruby", "using any"))
    world.greet()

    assert world.task(world.session("w", "cobol"))["step_id"] == "compose"


def test_a_token_is_listed_once_whatever_ends_its_attempt() -> None:
    world, session = order(ORDER.replace('worker "shop.price"', 'worker "shop.price" timeout 4s'))
    price, stock = world.task(session), world.task(session)
    world.runtime.cancel("e-1")
    assert sorted(world.runtime.heartbeat(session)["cancel"]) == sorted([price["token"], stock["token"]])
    world.passes(4)

    assert world.runtime.heartbeat(session)["cancel"] == []

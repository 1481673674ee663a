"""Steps that run once for each element of a list."""

from dataclasses import replace
from pathlib import Path

from orbit_django.contracts import ANY, Reference, Step, TaskContract, Workflow
from orbit_django.embedded.store import SqliteStore
from tests.embedded.shop import SHOP, TASKS, Shop
from tests.embedded.test_runtime import ACCEPTED, DUPLICATE


def test_each_element_is_a_step_of_its_own() -> None:
    shop = Shop()
    shop.order("a", "b")
    tasks = shop.tasks()

    assert list(tasks) == ["pack[0]", "pack[1]"]
    assert [task["input"] for task in tasks.values()] == [{"sku": "a"}, {"sku": "b"}]
    assert [task["idempotency_key"] for task in tasks.values()] == ["e-1/pack[0]", "e-1/pack[1]"]
    assert shop.history()[1] == {
        "event": "StepFanOut",
        "at_ms": 1_700_000_000_000,
        "step": "pack",
        "items": [{"sku": "a"}, {"sku": "b"}],
    }


def test_the_next_step_gets_the_list_of_outputs_in_their_order() -> None:
    shop = Shop()
    shop.order("a", "b")
    first, second = shop.tasks().values()
    shop.done(second, box="B")
    assert shop.tasks() == {}
    shop.done(first, box="A")

    assert shop.tasks()["charge"]["input"] == {"boxes": [{"box": "A"}, {"box": "B"}]}
    assert shop.runtime.complete(first["token"], {"box": "A"}) == DUPLICATE


def test_elements_retry_each_for_itself() -> None:
    shop = Shop()
    shop.order("a", "b")
    first, _ = shop.tasks().values()
    assert shop.fail(first["token"]) == ACCEPTED
    shop.passes(1)
    (again,) = shop.tasks().values()

    assert (again["step_id"], again["attempt"], again["idempotency_key"]) == ("pack[0]", 2, "e-1/pack[0]")


def test_a_failed_element_ends_the_others() -> None:
    shop = Shop(on_failure=())
    shop.order("a", "b", "c")
    first, second = (shop.task(shop.worker) for _ in range(2))
    shop.fail(first["token"], "BROKEN", retryable=False)
    assert shop.runtime.heartbeat(shop.worker)["cancel"] == [second["token"]]
    shop.fail(second["token"])

    statuses = {name: str(step.status) for name, step in shop.execution().steps.items() if name.startswith("pack")}
    assert statuses == {"pack": "FAILED", "pack[0]": "FAILED", "pack[1]": "CANCELLED", "pack[2]": "CANCELLED"}
    assert shop.status() == ("FAILED", "BROKEN")


def test_an_empty_list_is_done_at_once() -> None:
    shop = Shop()
    shop.order()

    assert shop.tasks()["charge"]["input"] == {"boxes": []}


def test_an_element_without_the_member_ends_the_execution() -> None:
    shop = Shop(on_failure=())
    shop.runtime.start("Shop", {"items": [{"sku": "a"}, {"name": "b"}]}, "e-1")

    assert shop.status() == ("FAILED", "EXPRESSION_ERROR")
    assert shop.execution().error["message"] == "step `pack[1]`: `$item.sku` has no value: there is no `sku` in $item"
    assert shop.tasks() == {}


def test_what_is_no_list_cannot_be_fanned_out() -> None:
    first = Step(name="first", task_name="shop.first")
    step = Step(
        name="pack",
        task_name="shop.pack",
        each=Reference.to("first.told.all"),
        arguments={"sku": Reference.to("$item")},
    )
    shop = Shop()
    shop.catalog.declare(
        [TaskContract("shop.first", "1", output={"told": ANY}), TASKS[0]],
        [Workflow(name="Beside", version="1", steps=(first, step))],
    )
    shop.worker = shop.session("w-1", "python", ("shop.first", "1"))
    for output, said in (({"told": 5}, "there is no `all` in first.told"), ({"told": {"all": 5}}, "to fan out: 5")):
        shop.runtime.start("Beside", {}, said)
        shop.done(shop.task(shop.worker), **output)
        error = shop.execution(said).error
        assert error["code"] == "EXPRESSION_ERROR"
        assert said in error["message"]


def test_a_key_must_be_a_text() -> None:
    (pack, *rest) = SHOP.steps
    shop = Shop(on_failure=(), steps=(replace(pack, idempotency_key=Reference.to("$item.sku")), *rest))
    shop.runtime.start("Shop", {"items": [{"sku": 5}]}, "e-1")

    assert shop.execution().error == {
        "code": "EXPRESSION_ERROR",
        "message": "step `pack[0]`: its idempotency_key is no text",
    }


def test_a_result_without_a_value_fails_the_execution() -> None:
    step = Step(name="first", task_name="shop.first")
    shop = Shop()
    result = {"all": Reference.to("first.told.all")}
    shop.catalog.declare(
        [TaskContract("shop.first", "1", output={"told": ANY})],
        [Workflow(name="Beside", version="1", output={"all": ANY}, steps=(step,), result=result)],
    )
    shop.worker = shop.session("w-1", "python", ("shop.first", "1"))
    shop.runtime.start("Beside", {}, "e-1")
    shop.done(shop.task(shop.worker), told={})

    assert shop.status() == ("FAILED", "EXPRESSION_ERROR")


def test_a_restart_in_the_middle(tmp_path: Path) -> None:
    shop = Shop(store=SqliteStore(tmp_path / "state.db"))
    shop.order("a", "b")
    first, second = shop.tasks().values()
    shop.done(first, box="A")
    shop.again()
    shop.done(second, box="B")

    assert shop.tasks()["charge"]["input"] == {"boxes": [{"box": "A"}, {"box": "B"}]}
    shop.store.close()


def test_the_whole_way() -> None:
    shop = Shop()
    shop.pack("a", "b")
    shop.charge()
    shop.done(shop.tasks()["send"])

    assert shop.execution().output == {"charge": "c-1", "currency": "EUR"}
    assert shop.status() == ("COMPLETED", None)
    assert "CompensationStarted" not in shop.events()

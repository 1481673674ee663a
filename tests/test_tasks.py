from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from orbit_django.context import TaskContext
from orbit_django.exceptions import ConfigurationError
from orbit_django.protocol import Contract
from orbit_django.tasks import Registry, Task, registry, task
from tests.testapp.models import Charge

if TYPE_CHECKING:
    from somewhere import Delivery, Unknown


@dataclass
class Order:
    amount: int


class Methods:
    def method(self, input, ctx): ...

    def __call__(self, input, ctx): ...


def plain(input, ctx): ...


def typed(input: Order, ctx: Delivery) -> Order: ...


def nothing(): ...


def too_much(input, ctx, more): ...


def by_name(input, *, ctx): ...


def unknown_input(input: Unknown): ...


def unknown_output(input) -> Unknown: ...


def broken_annotation(input: Order.nothing): ...


def text(input) -> str: ...


def lines(input) -> list[Order]: ...


def generator(input):
    yield {}


async def stream(input):
    yield {}


@pytest.fixture(autouse=True)
def found(monkeypatch) -> Registry:
    """Return the registry without the handlers of the apps that are installed."""
    monkeypatch.setattr(registry, "_tasks", {})
    monkeypatch.setattr(registry, "faults", [])
    return registry


def served(function: Callable[..., Any], **said: Any) -> Task:
    """Declare a handler and return what was recorded of it."""
    task("shop.pay", version="1.0.0", **said)(function)
    assert registry.faults == []
    (recorded,) = registry
    return recorded


def fault(function: Any, name: Any = "shop.pay", version: Any = "1.0.0", **said: Any) -> str:
    """Declare a handler that cannot be served and return why."""
    assert task(name, version=version, **said)(function) is function
    assert list(registry) == []
    (text,) = registry.faults
    return text


def test_a_handler_stays_a_plain_function(found: Registry) -> None:
    assert task("shop.pay", version="1.0.0")(plain) is plain
    recorded = found.get(Contract("shop.pay", "1.0.0"))
    assert recorded == Task(Contract("shop.pay", "1.0.0"), plain)


def test_everything_that_is_said_is_recorded() -> None:
    recorded = served(plain, atomic=False, using="other", output=Order, sensitive=True, description="Takes money.")
    assert (recorded.is_atomic, recorded.using, recorded.is_sensitive) == (False, "other", True)
    assert (recorded.output_type, recorded.description) == (Order, "Takes money.")


def test_types_are_read_from_annotations_that_are_texts() -> None:
    recorded = served(typed)
    assert (recorded.input_type, recorded.output_type, recorded.takes_context) == (Order, Order, True)


def test_the_declared_output_goes_before_the_annotation() -> None:
    assert served(unknown_output, output=dict).output_type is None


@pytest.mark.parametrize("declared", [Order, "Order"])
def test_an_output_may_be_named_by_a_text(declared: object) -> None:
    assert served(typed, output=declared).output_type is Order


def test_an_input_made_of_a_type_is_read_as_well() -> None:
    def many(input: list[Order] | None, ctx): ...

    assert served(many).input_type == list[Order] | None


def test_a_handler_may_do_without_the_context() -> None:
    def alone(input): ...

    def optional(input, ctx=None, *more, flag=False, **rest): ...

    assert not served(alone).takes_context
    assert Task(Contract("a", "1"), optional).takes_context


def test_a_wrapped_handler_is_read_through_its_wrapper() -> None:
    @functools.wraps(typed)
    def wrapper(*args, **kwargs):
        return typed(*args, **kwargs)

    assert served(wrapper).input_type is Order


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (nothing, "takes (input, ctx) or (input), found ()"),
        (too_much, "takes (input, ctx) or (input), found (input, ctx, more)"),
        (by_name, "takes (input, ctx) or (input), found (input, *, ctx)"),
        (Methods.method, "takes (input, ctx) or (input)"),
        (Methods(), "belongs above a function"),
        (Order, "belongs above a function"),
        (functools.partial(plain), "belongs above a function"),
        (generator, "does not yield"),
        (stream, "does not yield"),
        (unknown_input, "'Unknown' cannot be read: name 'Unknown' is not defined"),
        (unknown_output, "'Unknown' cannot be read: name 'Unknown' is not defined"),
        (broken_annotation, "'Order.nothing' cannot be read"),
        (text, "declares the output str; a handler returns a JSON object"),
        (lines, "declares the output list; a handler returns a JSON object"),
    ],
)
@pytest.mark.promise("W8")
def test_a_function_that_cannot_be_served_is_a_fault_and_no_error(function: Any, reason: str) -> None:
    assert reason in fault(function)


@pytest.mark.parametrize("kind", [Charge, list[Charge], Charge | None, "Charge"])
@pytest.mark.promise("W8")
def test_a_row_is_no_input_and_no_output(kind: Any) -> None:
    def pay(input): ...

    pay.__annotations__ = {"input": kind}
    assert fault(pay).endswith(
        "the input is annotated with the model Charge, but it is JSON: annotate it with dict, a dataclass, a TypedDict"
        " or a pydantic model, and look the row up"
    )
    registry.faults.clear()
    pay.__annotations__ = {"return": kind}
    assert fault(pay).endswith("; a handler returns a JSON object")


@pytest.mark.parametrize("declare", [task, task("shop.pay"), task(version="1"), task()])
@pytest.mark.promise("W8")
def test_a_decorator_without_name_or_version_says_how_it_is_written(declare: Any, found: Registry) -> None:
    assert declare(plain) is plain
    assert found.faults == [
        f"{__name__}.plain:{plain.__code__.co_firstlineno}:"
        ' name and version are to be said: @task("name", version="1.0.0")'
    ]
    assert list(found) == []


def swapped(ctx: TaskContext, input): ...


def swapped_and_bare(ctx, input): ...


def named_otherwise(delivery: TaskContext | None, data=None): ...


@pytest.mark.parametrize(
    ("function", "shown"),
    [(swapped, "(ctx, input)"), (swapped_and_bare, "(ctx, input)"), (named_otherwise, "(delivery, data=None)")],
)
@pytest.mark.promise("W8")
def test_a_handler_whose_context_comes_first_is_told_so(function: Callable[..., Any], shown: str) -> None:
    assert fault(function).endswith(f": the input comes first: a handler takes (input, ctx), found {shown}")


def test_a_pattern_that_matches_no_task_is_answered_with_the_likely_name(found: Registry) -> None:
    task("shop.pay", version="1.0.0")(plain)
    for patterns in ({"patterns": ["shop.pya"]}, {"excluded": ["shop.pya"]}):
        with pytest.raises(ConfigurationError, match=r"'shop.pya' matches none of 1 task; did you mean `shop.pay`\?"):
            found.select(**patterns)


@pytest.mark.parametrize("value", ["", " ", " shop.pay", "shop\npay", "a\x00", "\ud800", 1, 1.0, None])
@pytest.mark.promise("W8")
def test_name_and_version_are_texts_that_can_be_shown(value: object) -> None:
    assert "the task's name" in fault(plain, name=value)
    registry.faults.clear()
    assert "the task's version" in fault(plain, version=value)


def test_a_fault_names_the_place() -> None:
    line = nothing.__code__.co_firstlineno
    assert fault(nothing).startswith(f"{__name__}.nothing:{line}: ")


@pytest.mark.parametrize("name", ["orbit.start", "orbit."])
@pytest.mark.promise("W8")
def test_names_of_the_runtime_are_reserved(name: str) -> None:
    assert f"{name!r} is reserved" in fault(plain, name=name)


@pytest.mark.parametrize("name", ["orbit", "orbital.pay", "Orbit.pay"])
def test_names_that_only_look_alike_are_free(name: str) -> None:
    task(name, version="1")(plain)
    assert [(each.contract.task_name, registry.faults) for each in registry] == [(name, [])]


@pytest.mark.promise("W8")
def test_two_handlers_of_one_task_are_a_fault_that_names_both(found: Registry) -> None:
    task("shop.pay", version="1.0.0")(plain)
    task("shop.pay", version="1.0.0")(typed)
    (text,) = found.faults
    assert text.startswith("shop.pay 1.0.0 has two handlers: ")
    assert "plain:" in text
    assert "typed:" in text
    assert [each.function for each in found] == [plain]


def test_versions_and_other_letters_are_other_tasks(found: Registry) -> None:
    for name, version in [("shop.pay", "1"), ("shop.pay", "2"), ("shop.Pay", "1")]:
        task(name, version=version)(plain)
    assert (len(found), found.faults) == (3, [])
    assert found.get(Contract("shop.pay", "3")) is None


@pytest.fixture
def filled(found: Registry) -> Registry:
    for name in ("shop.pay", "shop.ship", "mail.send"):
        task(name, version="1")(plain)
    return found


@pytest.mark.parametrize(
    ("patterns", "excluded", "names"),
    [
        ([], [], ["mail.send", "shop.pay", "shop.ship"]),
        (["shop.*"], [], ["shop.pay", "shop.ship"]),
        (["shop.*", "mail.send"], ["*.ship"], ["mail.send", "shop.pay"]),
        ([], ["*"], []),
    ],
)
def test_handlers_are_chosen_by_pattern(filled: Registry, patterns, excluded, names) -> None:
    assert [each.contract.task_name for each in filled.select(patterns, excluded)] == names


@pytest.mark.parametrize("pattern", ["shop", "Shop.*", "shop.p", ""])
@pytest.mark.promise("W8")
def test_a_pattern_that_matches_nothing_is_a_mistake(filled: Registry, pattern: str) -> None:
    for patterns, excluded in ([pattern], []), (["*"], [pattern]):
        with pytest.raises(ConfigurationError, match="matches none of 3 tasks"):
            filled.select(patterns, excluded)

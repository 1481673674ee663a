import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbit_django.contracts import read
from orbit_django.exceptions import ContractSyntaxError
from tests.contracts.texts import GREET, ORDER


def refusal(text: str) -> str:
    with pytest.raises(ContractSyntaxError) as caught:
        read(text, "f.orbit")
    return str(caught.value)


def test_steps_come_after_those_they_need() -> None:
    [workflow] = read(ORDER).workflows.values()

    assert [step.name for step in workflow.steps] == ["price", "stock", "charge"]
    assert workflow.steps[2].needs() == {"price", "stock"}


def test_each_step_knows_its_contract() -> None:
    [workflow] = read(ORDER).workflows.values()

    assert workflow.contracts["stock"].version == "2.0.0"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            'worker "greeting.compose"',
            'worker "mail"',
            "11:12: no task `mail` is declared; known are `greeting.compose`",
        ),
        (
            'worker "greeting.compose"',
            'worker "greeting.compos"',
            "11:12: no task `greeting.compos` is declared; did you ",
        ),
        ("input.name", "input.nam", "13:18: `input` has no field `nam`; did you mean `name`?"),
        ("input.name", "input", "13:18: `input` must name a field, such as `input.name`"),
        ("input.name", "input.name.first", "13:18: `input.name` is String and has no fields"),
        ("input.name", "inpt.name", "13:18: there is no step `inpt` in workflow Greet; did you mean `input`?"),
        ("input.name", "compose.message", "13:18: these steps wait for each other: `compose`"),
        ("input.name", "1", "13:18: `name` must be String, this is Int"),
        ("input.name", "true", "13:18: `name` must be String, this is Boolean"),
        ("{ name: input.name }", "{ nme: input.name }", "13:17: the input of `greeting.compose` has no field `nme`"),
        ("    with { name: input.name }\n", "", "11:12: the input of `greeting.compose` needs a field `name` of type "),
        ("return { message", "return { msg", "17:17: the output of the workflow has no field `msg`"),
        ("{ message: compose.message }", "{ }", "6:10: the output of the workflow needs a field `message`"),
        ("step compose", "step input", "10:8: a step cannot be called `input`"),
        ("timeout 30s", "idempotency_key: 5", "14:22: `idempotency_key` must be String, this is Int"),
    ],
)
def test_a_file_without_sense_is_an_error_with_its_place(old: str, new: str, said: str) -> None:
    assert refusal(GREET.replace(old, new, 1)).startswith(f"f.orbit:{said}")


def test_two_steps_of_one_name() -> None:
    assert (
        refusal(ORDER.replace("step stock", "step price"))
        == "f.orbit:31:8: workflow Order has two steps called `price`"
    )


def test_a_cycle_is_named_at_a_reference_that_closes_it() -> None:
    text = ORDER.replace("item: input.item } }\n  step stock", "item: charge.charge } }\n  step stock")

    assert refusal(text) == "f.orbit:22:40: these steps wait for each other: `charge`, `price`"


def test_whole_and_other_numbers_may_meet() -> None:
    assert read(ORDER.replace("amount: price.amount, left", "amount: stock.left, left")).workflows


@given(st.permutations(["charge", "price", "stock"]))
def test_the_order_in_the_file_does_not_matter(names: list[str]) -> None:
    head, *steps = ORDER.replace("  return", "  step return").split("  step ")
    bodies = {body.split(" ", 1)[0]: body for body in steps}
    text = head + "".join(f"  step {bodies[name]}" for name in names) + "  " + bodies["return"]
    [workflow] = read(text).workflows.values()

    assert [step.name for step in workflow.steps].index("charge") == 2

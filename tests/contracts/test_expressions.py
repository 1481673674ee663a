from orbit_django.contracts import read
from orbit_django.contracts.expressions import evaluate
from tests.contracts.texts import ORDER


def test_references_and_literals_get_their_values() -> None:
    [workflow] = read(ORDER).workflows.values()
    scope = {"input": {"order": "o-1", "item": "x"}, "price": {"amount": 2.5}, "stock": {"left": 7}}

    assert evaluate(workflow.steps[2].arguments, scope) == {
        "order": "o-1",
        "amount": 2.5,
        "left": 7,
        "currency": "EUR",
    }

from dataclasses import dataclass
from typing import Any, Literal, TypedDict

import pytest

from orbit_django.agreement.capabilities import capabilities
from orbit_django.contracts import read
from orbit_django.contracts.catalog import Catalog
from orbit_django.embedded.weave.schemas import is_supported
from orbit_django.exceptions import ConfigurationError
from orbit_django.protocol import Contract
from orbit_django.tasks import Task

CONTRACT = """
task "mail.send" { version "1.0.0" input { to: String, count: Int, rate: Float } output { id: String } }
"""


@dataclass
class Letter:
    to: str
    kind: Literal["a", "b"] = "a"
    weight: float | None = None


class Sent(TypedDict, total=False):
    id: int


def handle(input: Any) -> Any:
    return {}


def capability(catalog: Catalog | None = None, name: str = "mail.send", version: str = "1.0.0", **said: Any) -> Any:
    (found,) = capabilities(
        [Task(Contract(name, version), handle, **said)],
        catalog or Catalog(),
        side_effect="idempotency_key",
        timeout_seconds=60,
    )
    assert is_supported(found["inputSchema"])
    assert is_supported(found["outputSchema"])
    return found


def test_a_contract_says_the_schemas() -> None:
    found = capability(read(CONTRACT), input_type=Letter)
    assert found == {
        "taskType": "mail.send",
        "taskVersion": "1.0.0",
        "inputSchema": {
            "type": "object",
            "properties": {"to": {"type": "string"}, "count": {"type": "integer"}, "rate": {"type": "number"}},
            "required": ["count", "rate", "to"],
        },
        "outputSchema": {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]},
        "sideEffect": "idempotency_key",
        "timeoutSeconds": 60,
    }


def test_without_one_the_hints_do() -> None:
    found = capability(input_type=Letter, output_type=Sent)
    assert found["inputSchema"] == {
        "type": "object",
        "properties": {"to": {"type": "string"}, "kind": {"type": "string"}, "weight": {"type": ["null", "number"]}},
        "required": ["to"],
    }
    assert found["outputSchema"] == {"type": "object", "properties": {"id": {"type": "integer"}}, "required": []}


def test_a_model_says_its_own() -> None:
    pydantic = pytest.importorskip("pydantic")
    model = pydantic.create_model("Order", number=(int, ...), lines=(list[str], []))
    found = capability(input_type=model, output_type=model)
    assert found["inputSchema"]["required"] == ["number"]
    assert found["outputSchema"]["properties"]["lines"]["items"] == {"type": "string"}


def test_without_anything_every_input_and_every_object_will_do() -> None:
    found = capability()
    assert (found["inputSchema"], found["outputSchema"]) == ({}, {"type": "object"})


@pytest.mark.parametrize(
    ("name", "version"), [("mail send", "1.0.0"), ("-mail", "1.0.0"), ("mail", "1"), ("mail", "v1.0.0")]
)
def test_a_name_that_a_platform_does_not_take_is_a_mistake(name: str, version: str) -> None:
    with pytest.raises(ConfigurationError, match="Weave takes a"):
        capability(name=name, version=version)


def test_the_same_project_says_the_same_in_any_order() -> None:
    tasks = [Task(Contract(name, "1.0.0"), handle) for name in ("b", "a", "c")]
    said = [
        capabilities(order, Catalog(), side_effect="idempotent", timeout_seconds=1) for order in (tasks, tasks[::-1])
    ]
    assert said[0] == said[1]
    assert [each["taskType"] for each in said[0]] == ["a", "b", "c"]

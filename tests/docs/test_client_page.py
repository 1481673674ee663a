"""docs/reference/client.md: its view is asked, and its tables name what there is."""

import inspect
import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from django.test import RequestFactory

from orbit_django import exceptions
from orbit_django.client import Client
from orbit_django.contracts import read
from orbit_django.embedded.server import EmbeddedRuntime
from tests.docs.pages import blocks, text_of

PAGE = "docs/reference/client.md"
CONTRACT = """
task "shop.pack" { version "1.0.0" }
workflow Pack { version "1.0.0" output { } step pack { worker "shop.pack" } return { } }
"""


@pytest.fixture
def show() -> Callable[[str], tuple[int, Any]]:
    (block,) = blocks(PAGE)
    names: dict[str, Any] = {}
    exec(block.text, names)  # noqa: S102  (the page's own block)

    def ask(execution_id: str) -> tuple[int, Any]:
        answer = names["show"](RequestFactory().get("/"), execution_id)
        return answer.status_code, json.loads(answer.content)

    return ask


def test_the_view_tells_how_far_an_execution_has_come(show, settings) -> None:
    with EmbeddedRuntime(read(CONTRACT)) as runtime:
        settings.ORBIT = {"SERVER": runtime.url}
        Client().start("Pack", execution_id="order-1")
        assert show("order-1") == (200, {"status": "RUNNING", "output": None})
        assert show("order-2")[0] == 404
    status, said = show("order-1")
    assert (status, said["error"]) == (503, "the runtime does not answer")


def test_every_method_is_named_with_its_arguments() -> None:
    methods = {name: each for name, each in vars(Client).items() if inspect.isfunction(each) and name[0] != "_"}
    wanted = {
        name: [one for one in inspect.signature(each).parameters if one != "self"] for name, each in methods.items()
    }
    rows = re.findall(r"^\| `(\w+)\((.*?)\)` \|", text_of(PAGE), re.MULTILINE)
    named = {name: [one.split("=")[0] for one in given.split(", ") if one not in ("", "*")] for name, given in rows}
    assert named == wanted


def test_every_error_is_one() -> None:
    named = set(re.findall(r"`(\w+Error)`", text_of(PAGE)))
    assert {"NoAnswerError", "RefusedError", "StartConflictError"} <= named
    assert [name for name in named if not hasattr(exceptions, name)] == []

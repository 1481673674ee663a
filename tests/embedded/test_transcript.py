"""The recorded conversation, replayed in its order: every request gets the recorded status and body.

Ids and times, which differ from run to run, stand in angle brackets: the first occurrence in an answer gives them
their value. Entries marked ``implied`` are requests that the record mentions without showing them.
"""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from orbit_django.contracts import read
from orbit_django.embedded.server import EmbeddedRuntime
from tests.contracts.texts import GREET
from tests.embedded.wire import JSON, Client

TRANSCRIPT = json.loads(Path(__file__).with_name("transcript.json").read_text())
TOKENS = {"admin": "admin-secret", "worker": "worker-secret"}


class Names:
    """The values of the names in angle brackets."""

    def __init__(self) -> None:
        self.known: dict[str, Any] = {}

    def fill(self, text: str) -> str:
        return re.sub(r"<\w+>", lambda match: self.known[match[0]], text)

    def match(self, recorded: Any, found: Any, *, trimmed: bool = False) -> None:
        if isinstance(recorded, str) and recorded.startswith("<"):
            if recorded == "<deadline>":
                assert isinstance(found, int)
            else:
                assert found == self.known.setdefault(recorded, found)
        elif isinstance(recorded, dict):
            assert set(recorded) <= set(found) if trimmed else list(recorded) == list(found)
            for key, value in recorded.items():
                self.match(value, found[key])
        elif isinstance(recorded, list):
            assert len(recorded) == len(found)
            for one, other in zip(recorded, found, strict=True):
                self.match(one, other)
        else:
            assert (found, type(found)) == (recorded, type(recorded))


@pytest.fixture
def runtime():
    catalog = read(GREET)
    with EmbeddedRuntime(catalog, token=TOKENS["admin"], worker_token=TOKENS["worker"]) as runtime:
        yield runtime


def test_the_recorded_conversation(runtime: EmbeddedRuntime) -> None:
    clients = {name: Client(runtime.url, token) for name, token in TOKENS.items()}
    names = Names()
    for number, exchange in enumerate(TRANSCRIPT):
        client = clients[exchange["credential"]]
        body = names.fill(json.dumps(exchange["body"])).encode() if "body" in exchange else None
        reply = client.send(exchange["method"], exchange["path"], body, JSON if body else {})

        where = f"exchange {number}: {exchange['method']} {exchange['path']}: {reply.body!r}"
        assert reply.status == exchange["status"], where
        assert (reply.headers["x-orbit-api-version"] == "orbit-api/1") is exchange.get("has_version_header", True), (
            where
        )
        if exchange["answer"] is None:
            assert reply.body == b"", where
        else:
            assert reply.headers["content-type"] == "application/json", where
            names.match(exchange["answer"], reply.json, trimmed=exchange.get("trimmed", False))
    assert len({names.known[name] for name in ("<first>", "<second>", "<original>", "<redelivered>")}) == 4
    for client in clients.values():
        client.close()

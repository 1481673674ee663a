"""A Weave server, a release that was admitted there, and the binding as a worker uses it."""

import json
import uuid
from typing import Any
from urllib.parse import urlsplit

from orbit_django.conf.weave import OAuthSettings, WeaveSettings
from orbit_django.embedded.recorder import Exchange
from orbit_django.embedded.weave.faults import Faults
from orbit_django.embedded.weave.platform import ENVIRONMENT, PROJECT, SECRET, TENANT
from orbit_django.embedded.weave.server import RARE, EmbeddedWeave
from orbit_django.payloads import body_of, compact, encode_failure, failure_body
from orbit_django.protocol import SDK, Assignment, Completion, Contract, Failure, Kind, Receipt, Registration
from orbit_django.transports.weave import WeaveTransport
from tests.embedded.weave.scene import MAIL
from tests.embedded.weave.scene import capability as declared_capability
from tests.embedded.wire import Client

DIGEST = "sha256:" + "b" * 64
WAIT_MS = 3_000


def capability(name: str = MAIL, **more: Any) -> dict[str, Any]:
    """Return a capability whose effects carry an idempotency key, unless it says otherwise."""
    return declared_capability(name, **{"sideEffect": "idempotency_key"} | more)


class Scene:
    """The server in this process, and one binding that speaks to it."""

    def __init__(self, *capabilities: dict[str, Any], opt_in: tuple[str, ...] = (), **options: Any) -> None:
        self.faults = Faults()
        self.weave = EmbeddedWeave(faults=self.faults, **({"limits": RARE} | options)).start()
        declared = list(capabilities or [capability()])
        body = {"image_digest": DIGEST, "capabilities": declared, "credential_capabilities": list(opt_in)}
        self.release_id = str(self.raw("/worker-releases", body, "deployer")["id"])
        self.names = [f"{each['taskType']}@{each['taskVersion']}" for each in declared]
        self.transport = self.made()
        self.worker_id = ""

    def close(self) -> None:
        self.transport.close()
        self.weave.stop()

    def raw(self, path: str, body: Any, who: str = "worker") -> Any:
        client = Client(self.weave.url)
        headers = {"authorization": f"Bearer {self.call('issue_token', name=who)}"}
        try:
            return client.send(
                "POST", urlsplit(self.weave.base_url).path + path, json.dumps(body).encode(), headers
            ).json
        finally:
            client.close()

    def call(self, name: str, /, **members: Any) -> Any:
        return self.weave.call(name, **members)

    def settings(self, **more: Any) -> WeaveSettings:
        usual: dict[str, Any] = {
            "server": self.weave.url,
            "tenant": TENANT,
            "project": PROJECT,
            "environment": ENVIRONMENT,
            "release_id": self.release_id,
        }
        if not more.keys() & {"token", "token_file", "oauth"}:
            more["token"] = self.call("issue_token", name="worker")
        return WeaveSettings(**(usual | more))

    def oauth(self) -> OAuthSettings:
        return OAuthSettings(token_url=self.weave.token_url, client_id="worker", client_secret=SECRET)

    def made(self, capacity: int = 10, **more: Any) -> WeaveTransport:
        return WeaveTransport(self.settings(**more), capacity=capacity)

    def registration(self) -> Registration:
        contracts = tuple(Contract(*name.split("@")) for name in self.names)
        return Registration("shop-1", "python", contracts, SDK)

    def register(self) -> str:
        self.worker_id = self.transport.register(self.registration()).session_id
        return self.worker_id

    def create(self, name: str = MAIL, **more: Any) -> str:
        return str(self.call("create_task", capability=name, **({"retry": {"maxAttempts": 3}} | more)))

    def poll(self, **more: Any) -> Assignment:
        """Create a task and return it as a worker gets it."""
        self.create(**more)
        if not self.worker_id:
            self.register()
        found = self.transport.poll(self.worker_id, WAIT_MS)
        assert found is not None
        return found

    def task(self, given: Assignment) -> Any:
        return self.call("task", task_id=json.loads(given.token)["task_id"])

    def sent(self, call: str) -> list[Exchange]:
        return list(self.weave.recorder.of(call))

    def bodies(self, call: str) -> list[bytes]:
        return [one.body or b"" for one in self.sent(call)]

    def complete(self, given: Assignment, output: Any = None, completion_id: str = "") -> Receipt:
        return self.transport.send(Kind.COMPLETE, completion(given, output, completion_id))

    def fail(self, given: Assignment, code: str = "BROKEN", *, retryable: bool = False) -> Receipt:
        return self.transport.send(Kind.FAIL, failing(given, code, retryable=retryable))


def completion(given: Assignment, output: Any = None, completion_id: str = "") -> str:
    """Return the report of a success as the outbox makes it."""
    text = compact({} if output is None else output)
    return body_of(given.token, Completion(text), completion_id or str(uuid.uuid4()))


def failing(given: Assignment, code: str = "BROKEN", *, retryable: bool = False) -> str:
    """Return the report of a failure as the outbox makes it."""
    fields = encode_failure(Failure(code, "no", retryable=retryable), 10_000)
    return failure_body(given.token, fields, str(uuid.uuid4()))

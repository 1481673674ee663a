"""A Weave server whose time stands still until it is moved, and what a worker says to it, in plain HTTP."""

import json
import uuid
from typing import Any
from urllib.parse import urlsplit

from orbit_django.clock import FixedClock
from orbit_django.embedded.weave.faults import Faults
from orbit_django.embedded.weave.server import RARE, EmbeddedWeave
from tests.embedded.wire import Client, Reply

DIGEST = "sha256:" + "a" * 64
MAIL = "mail.send@1.0.0"


def capability(name: str = MAIL, **more: Any) -> dict[str, Any]:
    task_type, version = name.split("@")
    declared: dict[str, Any] = {
        "taskType": task_type,
        "taskVersion": version,
        "inputSchema": {},
        "outputSchema": {},
        "sideEffect": "idempotent",
        "timeoutSeconds": 600,
    }
    return declared | more


class Scene:
    """The server, one connection to it, and the release and the instance that were made last."""

    def __init__(self, **options: Any) -> None:
        self.faults = Faults()
        defaults: dict[str, Any] = {"limits": RARE, "recovery_seconds": None, "clock": FixedClock()}
        self.weave = EmbeddedWeave(faults=self.faults, **(defaults | options)).start()
        self.prefix = urlsplit(self.weave.base_url).path
        self.client = Client(self.weave.url)
        self.tokens: dict[str, str] = {}
        self.release_id = ""
        self.worker_id = ""

    def close(self) -> None:
        self.client.close()
        self.weave.stop()

    def token(self, name: str = "worker") -> str:
        if name not in self.tokens:
            self.tokens[name] = self.call("issue_token", name=name, seconds=1_000_000)
        return self.tokens[name]

    def call(self, name: str, /, **members: Any) -> Any:
        return self.weave.call(name, **members)

    def raw(self, path: str, body: bytes, *, who: str = "worker", method: str = "POST", **headers: str) -> Reply:
        sent = {"authorization": f"Bearer {self.token(who)}"} | {
            name.replace("_", "-"): value for name, value in headers.items()
        }
        return self.client.send(method, self.prefix + path, body, sent)

    def post(self, path: str, body: Any, who: str = "worker", client: Client | None = None) -> Reply:
        headers = {"authorization": f"Bearer {self.token(who)}"}
        encoded = json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode()
        return (client or self.client).send("POST", self.prefix + path, encoded, headers)

    def admit(self, *capabilities: dict[str, Any], digest: str = DIGEST, **more: Any) -> Reply:
        body = {"image_digest": digest, "capabilities": list(capabilities or [capability()])} | more
        reply = self.post("/worker-releases", body, "deployer")
        if reply.status == 201:
            self.release_id = reply.json["id"]
        return reply

    def register(self, *task_types: str, capacity: int = 10, who: str = "worker", **more: Any) -> Reply:
        body = {"release_id": self.release_id, "task_types": list(task_types or [MAIL]), "capacity": capacity} | more
        reply = self.post("/workers", body, who)
        if reply.status == 201:
            self.worker_id = reply.json["id"]
        return reply

    def ready(self, *capabilities: dict[str, Any], **more: Any) -> "Scene":
        """Admit a release and register an instance of it."""
        assert self.admit(*capabilities, **more).status == 201
        names = [f"{one['taskType']}@{one['taskVersion']}" for one in capabilities]
        assert self.register(*names).status == 201
        return self

    def create(self, name: str = MAIL, **more: Any) -> str:
        return str(self.call("create_task", capability=name, **more))

    def claim(self, limit: int = 10, who: str = "worker") -> Reply:
        return self.post("/tasks/claim", {"worker_id": self.worker_id, "limit": limit}, who)

    def lease(self, **more: Any) -> dict[str, Any]:
        """Create a task and claim it."""
        task_id = self.create(**more)
        leases = [one for one in self.claim().json if one["proof"]["task_id"] == task_id]
        assert len(leases) == 1
        return dict(leases[0])

    def heartbeat(self, lease: dict[str, Any], who: str = "worker", **forged: Any) -> Reply:
        return self.post("/tasks/heartbeat", lease["proof"] | forged, who)

    def complete(
        self,
        lease: dict[str, Any],
        output: Any = None,
        completion_id: str | None = None,
        who: str = "worker",
        **forged: Any,
    ) -> Reply:
        proof, completion_id = lease["proof"] | forged, completion_id or str(uuid.uuid4())
        return self.post("/tasks/complete", {"lease": proof, "completion_id": completion_id, "output": output}, who)

    def fail(self, lease: dict[str, Any], code: str = "BROKEN", completion_id: str | None = None, **more: Any) -> Reply:
        error = {"completion_id": completion_id or str(uuid.uuid4()), "code": code} | more
        return self.post("/tasks/fail", {"lease": lease["proof"], "error": error})

    def task(self, lease: dict[str, Any]) -> Any:
        return self.call("task", task_id=lease["proof"]["task_id"])

    def run_id(self, lease: dict[str, Any]) -> str:
        return str(self.task(lease)["run_id"])


def is_problem(reply: Reply, status: int, code: str) -> bool:
    """Say whether a reply is this refusal, in the form of a problem."""
    assert reply.headers["content-type"] == "application/problem+json", reply.body
    problem = reply.json
    assert {"status", "code", "message", "request_id", "diagnostics"} <= problem.keys()
    assert problem["request_id"] == reply.headers["x-weave-request-id"]
    assert (reply.status, problem["status"], problem["code"]) == (status, status, code)
    return True

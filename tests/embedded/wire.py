"""A plain HTTP client for the embedded runtime, which shows exactly what came back."""

import http.client
import json
import ssl
import time
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

JSON = {"content-type": "application/json"}


@dataclass
class Reply:
    status: int
    headers: Any
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Client:
    """One kept connection."""

    def __init__(self, url: str, token: str | None = None, context: ssl.SSLContext | None = None) -> None:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
        if parts.scheme == "https":
            self.connection: http.client.HTTPConnection = http.client.HTTPSConnection(
                host, port, timeout=20, context=context
            )
        else:
            self.connection = http.client.HTTPConnection(host, port, timeout=20)
        self.headers = {"authorization": f"Bearer {token}"} if token else {}

    def send(self, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None) -> Reply:
        try:
            self.connection.request(method, path, body, self.headers | (JSON if headers is None else headers))
            response = self.connection.getresponse()
            return Reply(response.status, response.headers, response.read())
        except OSError:
            self.connection.close()  # the next request opens another
            raise

    def post(self, path: str, body: Any) -> Reply:
        return self.send("POST", path, json.dumps(body).encode())

    def get(self, path: str) -> Reply:
        return self.send("GET", path, headers={})

    def registration(self, **more: Any) -> dict[str, Any]:
        contracts = [{"task_name": "greeting.compose", "contract_version": "1.0.0"}]
        return {"worker_id": "w-1", "runtime": "ruby", "contracts": contracts} | more

    def register(self, **more: Any) -> str:
        return str(self.post("/v1/workers/register", self.registration(**more)).json["worker_session_id"])

    def poll(self, session: str, wait_ms: int = 0) -> Reply:
        return self.post("/v1/workers/poll", {"worker_session_id": session, "wait_ms": wait_ms})

    def start(self, execution_id: str = "e-1") -> Reply:
        body = {"workflow": "Greet", "input": {"name": "Ada"}, "execution_id": execution_id}
        return self.post("/v1/executions", body)

    def complete(self, token: str) -> Reply:
        return self.post("/v1/tasks/complete", {"token": token, "output": {"message": "Hello, Ada"}})

    def beat(self, session: str) -> Reply:
        return self.post("/v1/workers/heartbeat", {"worker_session_id": session})

    def call(self, name: str) -> Reply:
        """Make any call, with a body that will do."""
        if name == "other":
            return self.start()
        folder = "tasks" if name in {"complete", "fail"} else "workers"
        body = (
            self.registration() if name == "register" else {"worker_session_id": "x", "token": "x", "error_code": "X"}
        )
        return self.post(f"/v1/{folder}/{name}", body)

    def until_answered(self, token: str) -> Reply:
        """Complete, again and again, until there is an answer."""
        end = time.monotonic() + 10
        while True:
            try:
                return self.complete(token)
            except OSError:
                assert time.monotonic() < end, "no answer"

    def close(self) -> None:
        self.connection.close()

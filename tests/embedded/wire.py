"""A plain HTTP client for the embedded runtime, which shows exactly what came back."""

import http.client
import json
import ssl
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
        self.connection.request(method, path, body, self.headers | (JSON if headers is None else headers))
        response = self.connection.getresponse()
        return Reply(response.status, response.headers, response.read())

    def post(self, path: str, body: Any) -> Reply:
        return self.send("POST", path, json.dumps(body).encode())

    def get(self, path: str) -> Reply:
        return self.send("GET", path, headers={})

    def register(self, **more: Any) -> str:
        contracts = [{"task_name": "greeting.compose", "contract_version": "1.0.0"}]
        body = {"worker_id": "w-1", "runtime": "ruby", "contracts": contracts} | more
        return str(self.post("/v1/workers/register", body).json["worker_session_id"])

    def poll(self, session: str, wait_ms: int = 0) -> Reply:
        return self.post("/v1/workers/poll", {"worker_session_id": session, "wait_ms": wait_ms})

    def start(self, execution_id: str = "e-1") -> Reply:
        body = {"workflow": "Greet", "input": {"name": "Ada"}, "execution_id": execution_id}
        return self.post("/v1/executions", body)

    def complete(self, token: str) -> Reply:
        return self.post("/v1/tasks/complete", {"token": token, "output": {"message": "Hello, Ada"}})

    def close(self) -> None:
        self.connection.close()

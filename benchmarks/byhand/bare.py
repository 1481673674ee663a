"""Baseline A: a plain loop of `requests`, with neither handler nor database."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import requests

WAIT_MS = 500
CONTRACTS = [{"task_name": "bench.work", "contract_version": "1.0.0"}]
REGISTER = {"worker_id": "by-hand", "runtime": "python", "contracts": CONTRACTS}


class Client:
    """The calls of a worker, as one writes them first."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._session = requests.Session()
        self._id = self._post("workers/register", REGISTER)["worker_session_id"]

    def poll(self) -> Any:
        """Return an assignment, or None."""
        return self._post("workers/poll", {"worker_session_id": self._id, "wait_ms": WAIT_MS})

    def complete(self, token: str, output: dict[str, Any]) -> Any:
        """Report a success."""
        return self._post("tasks/complete", {"token": token, "output": output})

    def _post(self, path: str, body: dict[str, Any]) -> Any:
        response = self._session.post(f"{self._url}/v1/{path}", json=body, timeout=30)
        response.raise_for_status()
        return response.json() if response.content else None


class Worker:
    """Polls and reports."""

    def __init__(self, url: str) -> None:
        self._url = url

    def loop(self) -> Callable[[], None]:
        """Return the step of one thread."""
        client = Client(self._url)

        def step() -> None:
            if assignment := client.poll():
                client.complete(assignment["token"], {"order": 1})

        return step

    def close(self) -> None:
        """Leave nothing behind."""

"""The calls beside the work: a deployer admits a release, and people look at what a token is worth."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from orbit_django.clock import SystemClock
from orbit_django.conf.weave import WeaveSettings
from orbit_django.exceptions import ConfigurationError, NoAnswerError, RefusedError
from orbit_django.payloads import compact
from orbit_django.transports.answers import Answer
from orbit_django.transports.weave.calls import WeaveCalls
from orbit_django.transports.weave.keeping import capacity_wait
from orbit_django.transports.weave.words import is_capacity

TRIES = 40  # about ten seconds at capacity
MEANINGS = {
    "WV-RELEASE-CONFLICT": "this image digest was admitted before with another request: build a new image, or send"
    " the original request again",
    "WV-CAPABILITY-CONFLICT": "a task of this name and version has another contract in this project already: change"
    " the version of the task",
    "WV-CAPABILITY-SCHEMA": "a schema says something that the platform does not support: simplify the types of the"
    " handler, or declare the task in CONTRACTS",
    "WV-CONNECTION": "a task whose name begins with weave-connector- needs its connector binding: --bindings",
    "WV-FORBIDDEN": "this token may not admit releases: that takes a deployer's, --token-file",
    "WV-UNAUTHENTICATED": "the token is not accepted: it has expired, or its identity is not linked",
}


class Admission:
    """Calls of a deployer, and questions; ``options`` are those of HttpConnection."""

    def __init__(self, settings: WeaveSettings, **options: Any) -> None:
        if missing := settings.lacking():
            raise ConfigurationError(f"WEAVE: {missing[0]}")
        self._calls = WeaveCalls(settings, SystemClock(), **options)

    def admit(self, release: Mapping[str, Any]) -> str:
        """Admit a release and return its id; the same request again returns the same one.

        Raises RefusedError with what to do, and NoAnswerError when nothing final came, after which the same request
        may be sent again.
        """
        answer = self._insist("/worker-releases", compact(dict(release)))
        if not answer.is_success:
            error = self._calls.failure(answer)
            if isinstance(error, RefusedError) and error.code in MEANINGS:
                raise RefusedError(error.status, error.code, MEANINGS[error.code], is_from_runtime=True)
            raise error
        value = answer.value()
        if not isinstance(value, dict) or not isinstance(value.get("id"), str):
            raise NoAnswerError("the answer names no release")
        return str(value["id"])

    def probe(self) -> Answer:
        """Claim for an instance that nobody registered: 409 when the token is accepted for work."""
        return self._insist("/tasks/claim", json.dumps({"worker_id": str(uuid4()), "limit": 1}))

    def release(self, release_id: str) -> Answer:
        """Ask for a release, which takes more rights than a worker has."""
        return self._calls.get(f"/worker-releases/{release_id}")

    def close(self) -> None:
        """Let go of every connection."""
        self._calls.close()

    def _insist(self, path: str, body: str) -> Answer:
        for tries in range(1, TRIES + 1):
            answer = self._calls.post(path, body, is_start=True)
            if not is_capacity(answer):
                return answer
            threading.Event().wait(capacity_wait(tries))
        raise NoAnswerError(f"the platform was at capacity {TRIES} times in a row", is_maybe_processed=False)

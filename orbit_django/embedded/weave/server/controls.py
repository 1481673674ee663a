"""The controls of a server, by name: what its rooms offer to tests, and the server's own."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any, Protocol

from orbit_django.embedded.recorder import Exchange, Recorder
from orbit_django.embedded.weave.exchange import Interference
from orbit_django.embedded.weave.faults import Faults, parse_fault
from orbit_django.embedded.weave.platform import Platform
from orbit_django.embedded.weave.server.doors import public_methods
from orbit_django.exceptions import ConfigurationError


class Controlled(Protocol):
    """What the server offers itself."""

    recorder: Recorder
    faults: Interference | None

    def advance(self, seconds: float) -> None:
        """Move the server's clock forward."""
        ...

    def recover(self) -> int:
        """Make the decisions of recovery that are due."""
        ...

    def set_limits(self, level: str) -> None:
        """Choose how often requests are refused for capacity."""
        ...


def methods_of(server: Controlled, platform: Platform) -> dict[str, Callable[..., Any]]:
    """Return every control by its name."""
    own: dict[str, Callable[..., Any]] = {
        "advance": server.advance,
        "recover": server.recover,
        "set_limits": server.set_limits,
        "log": lambda: [exchange_view(one) for one in server.recorder.exchanges],
        "clear_log": server.recorder.clear,
        "fault": lambda text: add_fault(server, text),
        "clear_faults": lambda: faults_of(server).clear(),
    }
    return public_methods(platform.work, platform.incidents, platform.operators, platform.views) | own


def add_fault(server: Controlled, text: str) -> None:
    """Put a fault in force, written as on a command line."""
    faults_of(server).put(parse_fault(text))


def faults_of(server: Controlled) -> Faults:
    """Return the faults that can be added to; raises ConfigurationError when somebody else disturbs the server."""
    server.faults = server.faults or Faults()
    if not isinstance(server.faults, Faults):
        raise ConfigurationError("faults were replaced by something else")
    return server.faults


def exchange_view(exchange: Exchange) -> dict[str, Any]:
    """Return one request of the log as JSON types; bodies in base64, byte for byte."""
    return {
        "at": exchange.at,
        "method": exchange.method,
        "path": exchange.path,
        "call": exchange.call,
        "headers": exchange.headers,
        "body": None if exchange.body is None else base64.b64encode(exchange.body).decode(),
        "status": exchange.status,
        "answer": base64.b64encode(exchange.answer).decode(),
    }

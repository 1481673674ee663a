"""The server as a process of its own: its options, what it says at its start, and its end by a signal."""

from __future__ import annotations

import signal
import threading
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Callable, Mapping
from typing import Any

from orbit_django.embedded.recorder import Recorder
from orbit_django.embedded.weave.faults import Faults, explain, parse_fault
from orbit_django.embedded.weave.platform import CLIENTS, ENVIRONMENT, LEASE_SECONDS, PROJECT, SECRET, TENANT
from orbit_django.embedded.weave.server import LEVELS, EmbeddedWeave
from orbit_django.exceptions import ConfigurationError

MOST_LOGGED = 1_000  # requests; a worker asks four times a second, all day
OPTIONS: dict[str, dict[str, Any]] = {
    "--host": {"default": "127.0.0.1", "help": "address to listen on (default: %(default)s)"},
    "--port": {
        "type": int,
        "default": 7234,
        "help": "port to listen on, 0 for any (default: %(default)s)",
    },
    "--db": {"metavar": "PATH", "help": "file of the server's own state (default: none, it is forgotten at the end)"},
    "--lease-seconds": {
        "type": float,
        "default": LEASE_SECONDS,
        "metavar": "SECONDS",
        "help": "how long a lease lasts, in seconds, up to 60 (default: %(default)s)",
    },
    "--token-seconds": {
        "type": float,
        "default": 300.0,
        "metavar": "SECONDS",
        "help": "how long an access token lasts, in seconds (default: %(default)s)",
    },
    "--refusals": {
        "choices": sorted(LEVELS),
        "default": "ordinary",
        "help": "how often requests are refused for capacity (default: %(default)s)",
    },
    "--fault": {
        "action": "append",
        "default": [],
        "metavar": "KIND:CALL[:VALUE][+SKIP][xTIMES]",
        "help": "misbehave on purpose, for example lost:complete; may be repeated (default: no fault)",
    },
}


def serve(options: Mapping[str, Any], say: Callable[[str], Any]) -> None:
    """Serve until SIGTERM or SIGINT; ``options`` are those of OPTIONS; raises ConfigurationError."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    with server_of(options) as weave:
        for line in announcement(weave):
            say(line)
        stop.wait()


def server_of(options: Mapping[str, Any]) -> EmbeddedWeave:
    """Return the server that the options describe; raises ConfigurationError."""
    for name, most in (("lease_seconds", 60.0), ("token_seconds", 86_400.0)):
        if not 1 <= options[name] <= most:
            raise ConfigurationError(f"--{name.replace('_', '-')} must be from 1 to {most:g}, not {options[name]:g}")
    return EmbeddedWeave(
        host=options["host"],
        port=options["port"],
        db_path=options["db"],
        lease_seconds=options["lease_seconds"],
        token_seconds=options["token_seconds"],
        limits=LEVELS[options["refusals"]],
        faults=Faults(*map(parse_fault, options["fault"])),
        recorder=Recorder(MOST_LOGGED),
    )


def announcement(weave: EmbeddedWeave) -> list[str]:
    """Return what a person needs to use the server."""
    return [
        f"Weave development server at {weave.url} (for development only, not for production)",
        f"tenant {TENANT}, project {PROJECT}, environment {ENVIRONMENT}",
        f"tokens at {weave.token_url} for the clients {', '.join(CLIENTS)}, each with the secret {SECRET}",
        f"create work with POST {weave.url}/control/create_task; stop with Ctrl-C",
    ]


def parser(program: str) -> ArgumentParser:
    """Return the parser of the options."""
    found = ArgumentParser(
        prog=program,
        description="Run a Weave server for development and tests only.",
        epilog=explain(),
        formatter_class=RawDescriptionHelpFormatter,
    )
    for name, said in OPTIONS.items():
        found.add_argument(name, **said)
    return found

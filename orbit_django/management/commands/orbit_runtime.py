"""``orbit_runtime``: the embedded development runtime alone, until it is stopped."""

from __future__ import annotations

import math
import signal
import sys
import threading
from argparse import ArgumentParser
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from orbit_django import conf
from orbit_django.embedded.callers import Identity, read_identities
from orbit_django.embedded.faults import Faults, parse_fault
from orbit_django.embedded.server import MAX_BODY_BYTES, EmbeddedRuntime, server_context
from orbit_django.exceptions import ConfigurationError

_PORT = 7233


class Command(BaseCommand):
    """Serve the worker protocol on this machine."""

    help = "Run the embedded ORBIT runtime. It is for development and tests only, never for production."
    requires_system_checks = []
    requires_migrations_checks = False

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the options."""
        parser.add_argument("contracts", nargs="*", metavar="FILE.orbit", help="default: the setting CONTRACTS")
        parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: 127.0.0.1)")
        parser.add_argument("--port", type=int, default=_PORT, help="port to listen on (default: %(default)s)")
        parser.add_argument(
            "--db", default="orbit-runtime.sqlite3", help="file of the runtime's own state (default: %(default)s)"
        )
        parser.add_argument("--token", help="admin token; without it and a workers file no credential is needed")
        parser.add_argument("--worker-token", help="token that may only call the worker endpoints")
        parser.add_argument("--workers-file", help="TOML file of worker identities")
        parser.add_argument("--session-timeout", type=float, default=30, metavar="SECONDS", help="default: %(default)s")
        parser.add_argument(
            "--max-body", type=int, default=MAX_BODY_BYTES, metavar="BYTES", help="default: %(default)s"
        )
        parser.add_argument("--tls-cert", help="PEM file of the server certificate")
        parser.add_argument("--tls-key", help="PEM file of its key, when that is another file")
        parser.add_argument("--tls-client-ca", help="PEM file of the CA of client certificates")
        parser.add_argument(
            "--fault",
            action="append",
            default=[],
            metavar="KIND:CALL[:VALUE][xTIMES]",
            help="inject a fault, for example lost:complete or status:poll:503x3; may be given several times",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Run until SIGTERM or SIGINT."""
        stop = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stop.set())
        try:
            runtime = _runtime(options).start()
        except ConfigurationError as error:
            raise CommandError(str(error), returncode=2) from None
        self._announce(runtime, options)
        stop.wait()
        runtime.stop()

    def _announce(self, runtime: EmbeddedRuntime, options: dict[str, Any]) -> None:
        names = ", ".join(f"{name} {version}" for name, version in runtime.catalog.workflows) or "none"
        self.stdout.write(f"ORBIT development runtime at {runtime.url} (for development only, not for production)")
        self.stdout.write(f"workflows: {names}; state in {options['db']}; stop with Ctrl-C")
        if runtime.credentials.is_open and not _is_loopback(options["host"]):
            self.stderr.write(
                f"whoever reaches {options['host']} may use this runtime; --token would ask for a credential"
            )
        sys.stdout.flush()


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _runtime(options: dict[str, Any]) -> EmbeddedRuntime:
    if not 0 < options["session_timeout"] < math.inf or options["max_body"] <= 0:
        raise ConfigurationError("--session-timeout and --max-body must be greater than zero")
    return EmbeddedRuntime(
        options["contracts"] or conf.load().contracts,
        host=options["host"],
        port=options["port"],
        token=options["token"],
        worker_token=options["worker_token"],
        identities=_identities(options["workers_file"]),
        session_timeout_ms=round(options["session_timeout"] * 1000),
        max_body=options["max_body"],
        db_path=options["db"],
        tls=server_context(options["tls_cert"], options["tls_key"], options["tls_client_ca"]),
        faults=Faults(*map(parse_fault, options["fault"])),
    )


def _identities(path: str | None) -> tuple[Identity, ...]:
    if not path:
        return ()
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"--workers-file {path}: {error}") from None
    return read_identities(text, path)

"""``orbit_runtime``: the embedded development runtime alone, until it is stopped."""

from __future__ import annotations

import logging
import math
import signal
import sys
import threading
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser, DjangoHelpFormatter

from orbit_django import conf
from orbit_django.conf.addresses import is_loopback, loopback_of, split_target
from orbit_django.embedded.callers import Identity, read_identities
from orbit_django.embedded.faults import Faults, explain, parse_fault
from orbit_django.embedded.server import MAX_BODY_BYTES, EmbeddedRuntime, server_context
from orbit_django.exceptions import ConfigurationError
from orbit_django.logs import ExtrasFormatter

_HOST, _PORT = "127.0.0.1", 7233
_MAX_PORT = 65_535
_FOLLOWED = "if that is http on this machine"


OPTIONS: dict[str, dict[str, Any]] = {
    "contracts": {
        "nargs": "*",
        "metavar": "FILE.orbit",
        "help": "what it knows of tasks and workflows (default: the setting CONTRACTS)",
    },
    "--host": {"help": f"address to listen on (default: that of SERVER {_FOLLOWED}, or {_HOST})"},
    "--port": {
        "type": int,
        "help": f"port to listen on, 0 for any that is free (default: that of SERVER {_FOLLOWED}, or {_PORT})",
    },
    "--grpc-port": {
        "type": int,
        "help": "port to serve gRPC on as well, 0 for any that is free (default: that of GRPC_TARGET if TRANSPORT is"
        " grpc and the target is this machine, or no gRPC)",
    },
    "--db": {
        "metavar": "PATH",
        "default": "orbit-runtime.sqlite3",
        "help": "file of the runtime's own state (default: %(default)s)",
    },
    "--token": {
        "help": "admin token; without it and a workers file no credential is needed (default: ORBIT_TOKEN)",
    },
    "--worker-token": {
        "metavar": "TOKEN",
        "help": "token that may only call the worker endpoints (default: ORBIT_WORKER_TOKEN)",
    },
    "--workers-file": {"metavar": "PATH", "help": "TOML file of worker identities (default: none)"},
    "--session-timeout": {
        "type": float,
        "default": 30,
        "metavar": "SECONDS",
        "help": "how long a silent worker keeps its tasks, in seconds (default: %(default)s)",
    },
    "--max-body": {
        "type": int,
        "default": MAX_BODY_BYTES,
        "metavar": "BYTES",
        "help": "largest request that is taken, in bytes (default: %(default)s)",
    },
    "--tls-cert": {"metavar": "PATH", "help": "PEM file of the server certificate (default: no TLS)"},
    "--tls-key": {"metavar": "PATH", "help": "PEM file of its key (default: in the certificate's file)"},
    "--tls-client-ca": {
        "metavar": "PATH",
        "help": "PEM file of the CA of client certificates (default: none is asked for)",
    },
    "--fault": {
        "action": "append",
        "default": [],
        "metavar": "KIND:CALL[:VALUE][+SKIP][xTIMES]",
        "help": "misbehave on purpose, for example lost:complete or status:poll:503x3, see below; may be repeated"
        " (default: no fault)",
    },
    "--quiet": {"action": "store_true", "help": "do not tell what workers and executions do, as --verbosity 0"},
}


class _Formatter(RawDescriptionHelpFormatter, DjangoHelpFormatter):
    """Keeps the lines of the text below the options."""


class Command(BaseCommand):
    """Serve the worker protocol on this machine."""

    help = "Run the embedded ORBIT runtime, for development and tests only, never for production."
    requires_system_checks = []
    requires_migrations_checks = False

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> CommandParser:
        """Let the kinds of faults follow the options in the help."""
        return super().create_parser(prog_name, subcommand, formatter_class=_Formatter, epilog=explain(), **kwargs)

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the options."""
        for names, said in OPTIONS.items():
            parser.add_argument(*names.split(), **said)

    def handle(self, *args: Any, **options: Any) -> None:
        """Run until SIGTERM or SIGINT."""
        stop = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stop.set())
        try:
            with_defaults = _with_defaults(options)
            self._tell_events(is_quiet=options["quiet"] or options["verbosity"] == 0)
            runtime = _runtime(with_defaults).start()
        except ConfigurationError as error:
            raise CommandError(str(error), returncode=2) from None
        self._announce(runtime, with_defaults)
        stop.wait()
        runtime.stop()
        self.stdout.write(f"the runtime has ended; its state stays in {with_defaults['db']}")

    def _tell_events(self, *, is_quiet: bool) -> None:
        """Show what the runtime logs on stdout, whatever the project's LOGGING says."""
        handler = logging.StreamHandler(self.stdout)
        handler.setFormatter(ExtrasFormatter("%(asctime)s %(message)s"))
        told = logging.getLogger("orbit_django.embedded")
        told.handlers = [handler]
        told.propagate = False
        told.setLevel(logging.WARNING if is_quiet else logging.INFO)

    def _announce(self, runtime: EmbeddedRuntime, options: dict[str, Any]) -> None:
        names = ", ".join(f"{name} {version}" for name, version in runtime.catalog.workflows) or "none"
        self.stdout.write(f"ORBIT development runtime at {runtime.url} (for development only, not for production)")
        if runtime.grpc_target:
            self.stdout.write(f"gRPC at {runtime.grpc_target}")
        self.stdout.write(f"workflows: {names}; state in {options['db']}; stop with Ctrl-C")
        if options["fault"]:
            self.stdout.write(f"misbehaves on purpose: {', '.join(options['fault'])}")
        if runtime.credentials.is_open and not is_loopback(options["host"]):
            self.stderr.write(
                f"whoever reaches {options['host']} may use this runtime; --token would ask for a credential"
            )
        sys.stdout.flush()


def _with_defaults(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options with what the settings and the environment say where the command line says nothing."""
    settings, environment = conf.load(), conf.from_environment()
    host, port = loopback_of(settings.server) or (_HOST, _PORT)
    defaults = {
        "contracts": settings.contracts,
        "host": host,
        "port": port if options["port"] is None else options["port"],
        "grpc_port": _grpc_port(settings) if options["grpc_port"] is None else options["grpc_port"],
        "token": environment["TOKEN"],
        "worker_token": environment["WORKER_TOKEN"],
    }
    return options | {name: options[name] or default for name, default in defaults.items()}


def _grpc_port(settings: conf.OrbitSettings) -> int | None:
    """Return the port that the project's own workers look for, if they look for it on this machine."""
    if settings.transport != "grpc" or not settings.grpc_target:
        return None
    host, port = split_target(settings.grpc_target)
    return port if is_loopback(host) else None


def _runtime(options: dict[str, Any]) -> EmbeddedRuntime:
    if not 0 < options["session_timeout"] < math.inf or options["max_body"] <= 0:
        raise ConfigurationError("--session-timeout and --max-body must be greater than zero")
    for name in ("port", "grpc_port"):
        if not 0 <= (options[name] or 0) <= _MAX_PORT:
            option = f"--{name.replace('_', '-')} {options[name]}"
            raise ConfigurationError(f"{option}: expected a number from 0 to {_MAX_PORT}")
    return EmbeddedRuntime(
        options["contracts"],
        host=options["host"],
        port=options["port"],
        grpc_port=options["grpc_port"],
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

"""``manage.py orbit_dev``: the development runtime, a reloading worker and Django's server, under one Ctrl-C."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils.termcolors import colorize

from orbit_django import conf
from orbit_django.conf.addresses import loopback_of
from orbit_django.development import Lines, Program, Together
from orbit_django.exceptions import ConfigurationError
from orbit_django.worker import interpreter

MISTAKE = 2
OWN, WEB = "orbit_dev", "web"
TAKEN = "already in use"  # how runserver says so
COLOURS = {"runtime": "magenta", "worker": "cyan", WEB: "green", OWN: "yellow"}
READY = "ORBIT development runtime at"


class Command(BaseCommand):
    """Start what a project needs on a laptop, and end all of it together."""

    help = "Run the development runtime, a worker that reloads, and Django's development server; one Ctrl-C ends all."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the options."""
        parser.add_argument(
            "--port", type=int, metavar="PORT", help="port of the runtime on 127.0.0.1 (default: that of SERVER, 7233)"
        )
        parser.add_argument(
            "--addrport",
            default="127.0.0.1:8000",
            metavar="[ADDRESS:]PORT",
            help="where Django's server listens (default: %(default)s)",
        )
        parser.add_argument("--no-server", action="store_true", help="leave Django's development server out")
        parser.add_argument(
            "--db",
            metavar="PATH",
            help="file of the runtime's own state (default: orbit-runtime.sqlite3 in the working folder)",
        )
        parser.add_argument(
            "--session-timeout",
            type=float,
            metavar="SECONDS",
            help="after so many seconds the tasks of a killed worker are delivered again (default: 30)",
        )
        parser.add_argument(
            "-c", "--concurrency", metavar="N", help="handlers at the same time (default: the setting CONCURRENCY, 4)"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Run until stopped; exit 0 when asked to end, 1 when a process ended by itself, 2 for a mistake."""
        try:
            server = _server(options["port"])
            programs = _programs(options, server, is_coloured=self._is_coloured())
        except ConfigurationError as error:
            raise CommandError(str(error), returncode=MISTAKE) from None
        paint: dict[str, Callable[[str], str]] = {}
        if self._is_coloured():
            paint = {name: partial(colorize, fg=colour) for name, colour in COLOURS.items()}
        lines = Lines(self.stdout, list(COLOURS), paint)  # type: ignore[arg-type]
        if getattr(settings, "ORBIT", {}).get("SERVER", server) != server:
            lines.tell(OWN, f"settings.ORBIT names another SERVER than {server}; the web server's process uses that")
        environment = interpreter.surroundings() | {"PYTHONUNBUFFERED": "1", "ORBIT_SERVER": server}

        def tell(name: str, text: str) -> None:
            lines.tell(name, text)
            if name == WEB and TAKEN in text:
                lines.tell(OWN, f"Django's server takes another port by --addrport, here {options['addrport']}")

        code = Together(programs, environment, tell, name=OWN).run()
        if code:
            sys.exit(code)

    def _is_coloured(self) -> bool:
        return self.style.ERROR("x") != "x"


def _server(port: int | None) -> str:
    """Return the URL of the runtime on this machine; another one's tasks are not for a worker under development."""
    found = loopback_of(conf.load().server)
    if found is None:
        raise ConfigurationError(
            f"SERVER is {conf.load().server}; orbit_dev runs a runtime on this machine: set it to"
            f" {conf.DEFAULT_SERVER}, or leave it out"
        )
    host, usual = found
    if port is None or port == usual:
        return conf.load().server
    if not 0 < port < 65_536:
        raise ConfigurationError(f"--port: expected a number from 1 to 65535, found {port}")
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def _programs(options: dict[str, Any], server: str, *, is_coloured: bool) -> list[Program]:
    host, port = loopback_of(server) or ("127.0.0.1", 7233)
    runtime = {"host": host, "port": port, "db": options["db"], "session_timeout": options["session_timeout"]}
    worker = {"reload": True, "server": server, "concurrency": options["concurrency"]}
    verbosity = {"verbosity": options["verbosity"]}
    programs = [
        Program("runtime", interpreter.command("orbit_runtime", runtime | verbosity), READY),
        Program("worker", interpreter.command("orbit_worker", worker | verbosity)),
    ]
    if not options["no_server"]:
        how = verbosity | {"force_color": is_coloured, "no_color": not is_coloured}
        programs.append(Program(WEB, [*interpreter.command("runserver", how), options["addrport"]]))
    return programs

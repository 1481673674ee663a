"""``manage.py orbit_worker``: options, logging and exit code of a worker."""

from __future__ import annotations

import logging
import os
import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from orbit_django import checks, conf
from orbit_django.exceptions import ConfigurationError
from orbit_django.logs import ExtrasFormatter
from orbit_django.tasks import registry
from orbit_django.worker.binding import is_credential_exposed, open_transport
from orbit_django.worker.worker import Worker, aliases_of

MISTAKE = 2
logger = logging.getLogger("orbit_django.worker")


class Command(BaseCommand):
    """Poll the runtime for tasks, run their handlers, report their results."""

    help = "Work for an ORBIT runtime: poll for tasks, run handlers, report results. Stop it with SIGTERM or Ctrl-C."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the options; each wins over settings.ORBIT and the environment."""
        parser.add_argument("-c", "--concurrency", help="poll loops, and so handlers at the same time (4)")
        parser.add_argument("--worker-id", help="identity to register under (python-<host>-<pid>)")
        parser.add_argument("--server", help="URL of the runtime (http://127.0.0.1:7233)")
        parser.add_argument("--transport", help="binding of the protocol: http, or a dotted path")
        parser.add_argument("--task", nargs="+", default=[], metavar="PATTERN", help="serve only matching tasks")
        parser.add_argument("--exclude", nargs="+", default=[], metavar="PATTERN", help="do not serve matching tasks")
        parser.add_argument("--drain-timeout", help="seconds that running handlers get after the first signal")
        parser.add_argument("--check", action="store_true", help="validate the configuration and exit")

    def handle(self, *args: Any, **options: Any) -> None:
        """Run until stopped; exit 0 after an orderly end, 1 after a hasty one, 2 for a mistake."""
        try:
            worker = self._worker(options)
        except ConfigurationError as error:
            raise CommandError(str(error), returncode=MISTAKE) from None
        if worker is None:
            return
        code = worker.run()
        if worker.refusal is not None:
            raise CommandError(f"the runtime refuses this worker: {worker.refusal}", returncode=MISTAKE)
        if code:
            _leave_at_once(code)

    def _worker(self, options: dict[str, Any]) -> Worker | None:
        names = ("concurrency", "worker_id", "server", "transport", "drain_timeout")
        settings = conf.load(**{name: options[name] for name in names})
        set_up_logging(settings.log_level)
        tasks = registry.select(options["task"], options["exclude"]) if not registry.faults else ()
        transport = open_transport(settings)
        checks.preflight(registry, tasks, aliases_of(settings, tasks))
        if is_credential_exposed(settings):
            logger.warning("the credential travels unencrypted to another machine; use https")
        if options["check"]:
            self.stdout.write(f"{len(tasks)} task(s) for {settings.server}: ready to start")
            return None
        return Worker(settings, tasks, transport)


def set_up_logging(level: str) -> None:
    """Show the worker's records on stderr, unless the project's LOGGING says what becomes of them."""
    ours = logging.getLogger("orbit_django")
    if ours.level == logging.NOTSET:
        ours.setLevel(level)
    if not ours.hasHandlers():
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(ExtrasFormatter())
        ours.addHandler(handler)


def _leave_at_once(code: int) -> None:
    """End the process although handlers still run; their transactions roll back with it."""
    sys.stdout.flush()
    sys.stderr.flush()
    logging.shutdown()
    os._exit(code)

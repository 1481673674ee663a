"""``manage.py orbit_doctor``: whether a worker could work here, one line for each question."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError, CommandParser

from orbit_django import conf
from orbit_django.conf.options import read_options
from orbit_django.doctor.examination import examine
from orbit_django.doctor.findings import Finding, Level
from orbit_django.exceptions import ConfigurationError
from orbit_django.logs import BREAKS
from orbit_django.management.shown import ListingCommand
from orbit_django.payloads import counted
from orbit_django.tasks import registry

MISTAKE = 2
WIDTH = 18  # of what a line is about
SETTINGS = ("concurrency", "worker_id", "server", "transport")


class Command(ListingCommand):
    """Look at settings, tasks, runtime and databases; change nothing."""

    help = "Look at everything that a worker needs, change nothing, and say what is wrong and what to do."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the options: those of the worker that is meant."""
        parser.add_argument(
            "-c", "--concurrency", metavar="N", help="poll loops of a process (default: the setting CONCURRENCY, 4)"
        )
        parser.add_argument(
            "-p", "--processes", metavar="N", help="worker processes, on all machines together (default: 1)"
        )
        parser.add_argument(
            "--worker-id",
            metavar="ID",
            help="identity that workers will register under (default: the setting WORKER_ID)",
        )
        parser.add_argument(
            "--server", metavar="URL", help=f"the runtime (default: the setting SERVER, {conf.DEFAULT_SERVER})"
        )
        parser.add_argument(
            "--transport", metavar="NAME", help="binding that workers will speak (default: the setting TRANSPORT, http)"
        )

        parser.add_argument(
            "--register",
            action="store_true",
            help="open a session as a worker does as well, and give it back: whether this worker id is let in with"
            " these tasks; the runtime lists the worker afterwards",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Print one line for each finding; exit 1 when something is wrong, 2 for a mistake of the command line."""
        try:
            processes = read_options({"processes": options["processes"]}).processes or 1
        except ConfigurationError as error:
            raise CommandError(str(error), returncode=MISTAKE) from None
        count = 0
        given = {name: options[name] for name in SETTINGS}
        for finding in examine(registry, processes, is_registering=options["register"], **given):
            if options["verbosity"] or finding.level is not Level.OK:
                self.stdout.write(self._line(finding))
            count += finding.level is Level.WRONG
        if count:
            raise CommandError(f"{counted(count, 'thing')} wrong")

    def _line(self, finding: Finding) -> str:
        paint = {Level.OK: self.style.SUCCESS, Level.NOTE: self.style.WARNING, Level.WRONG: self.style.ERROR}
        word = paint[finding.level](f"{finding.level.value:<5}")
        advice = f"  -> {finding.advice}" if finding.advice else ""
        return f"{word} {finding.about:<{WIDTH}} {BREAKS.sub(' ', finding.text + advice)}"

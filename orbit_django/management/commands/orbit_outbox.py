"""``manage.py orbit_outbox``: what is owed to the runtime, and sending it without a worker."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError, InterfaceError

from orbit_django import conf, outbox, starts
from orbit_django.exceptions import ConfigurationError
from orbit_django.outbox import Origin
from orbit_django.tasks import registry
from orbit_django.transports.executions import Executions
from orbit_django.worker.binding import open_transport
from orbit_django.worker.flush import flush, flush_starts
from orbit_django.worker.worker import aliases_of


class Command(BaseCommand):
    """Show what is owed to the runtime, results and starts of workflows, or send what is due."""

    help = (
        "status: count the messages to the runtime and the workflows to start; "
        "flush: send what can be sent now (exit 1 if some is left)."
    )
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the actions."""
        actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
        actions.add_parser("status", help="count messages by state, on every database alias in use")
        actions.add_parser("flush", help="send what no worker holds; exit 1 if something sendable is left")

    def handle(self, *args: Any, **options: Any) -> None:
        """Run the action."""
        try:
            settings = conf.load()
            aliases = aliases_of(settings, registry)
            if options["action"] == "status":
                self._status(aliases)
            else:
                self._flush(settings, aliases)
        except ConfigurationError as error:
            raise CommandError(str(error), returncode=2) from None
        except (DatabaseError, InterfaceError) as error:
            raise CommandError(f"the database cannot be used: {error}".splitlines()[0]) from None

    def _status(self, aliases: tuple[str, ...]) -> None:
        for alias in aliases:
            self.stdout.write(f"{alias}: {_shown(outbox.counts(alias))}")
            self.stdout.write(f"{alias}, starts of workflows: {_shown(starts.counts(alias))}")

    def _flush(self, settings: conf.OrbitSettings, aliases: tuple[str, ...]) -> None:
        transport = open_transport(settings)
        origin = Origin(settings.worker_name(), settings.server)
        try:
            sent, left = flush(transport, origin, aliases, settings.redact)
        finally:
            transport.close()
        starts_sent, starts_left = self._flush_starts(settings, aliases)
        self.stdout.write(f"{sent + starts_sent} sent, {left + starts_left} left")
        if left:
            raise CommandError(f"{left} message(s) could not be sent now; a worker or a later flush will")
        if starts_left:
            raise CommandError(f"{starts_left} workflow(s) could not be started now; a worker or a later flush will")

    def _flush_starts(self, settings: conf.OrbitSettings, aliases: tuple[str, ...]) -> tuple[int, int]:
        """Send starts; without the admin token none is sendable here, which is said."""
        if settings.token is None:
            if waiting := sum(starts.pending_count(alias) for alias in aliases):
                self.stderr.write(f"{waiting} workflow(s) wait to be started, which takes the admin token: set TOKEN")
            return 0, 0
        executions = Executions(settings)
        try:
            return flush_starts(executions, aliases, settings.redact)
        finally:
            executions.close()


def _shown(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {status}" for status, count in counts.items())

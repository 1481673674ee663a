"""``manage.py orbit_outbox``: what is owed to the runtime, and sending it without a worker."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError, InterfaceError

from orbit_django import conf, outbox
from orbit_django.exceptions import ConfigurationError
from orbit_django.outbox import Origin
from orbit_django.tasks import registry
from orbit_django.worker.binding import open_transport
from orbit_django.worker.flush import flush
from orbit_django.worker.worker import aliases_of


class Command(BaseCommand):
    """Show the outbox, or send what is due."""

    help = "status: count the messages to the runtime; flush: send what can be sent now (exit 1 if some is left)."
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
            shown = ", ".join(f"{count} {status}" for status, count in outbox.counts(alias).items())
            self.stdout.write(f"{alias}: {shown}")

    def _flush(self, settings: conf.OrbitSettings, aliases: tuple[str, ...]) -> None:
        transport = open_transport(settings)
        origin = Origin(settings.worker_name(), settings.server)
        try:
            sent, left = flush(transport, origin, aliases, settings.redact)
        finally:
            transport.close()
        self.stdout.write(f"{sent} sent, {left} left")
        if left:
            raise CommandError(f"{left} message(s) could not be sent now; a worker or a later flush will")

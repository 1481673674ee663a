"""``manage.py orbit_outbox``: what is owed to the runtime, sending it without a worker, and removing what is old."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from datetime import datetime
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.db import DatabaseError, InterfaceError
from django.utils import timezone

from orbit_django import conf, outbox, retention, starts
from orbit_django.conf.readers import READERS
from orbit_django.exceptions import ConfigurationError
from orbit_django.management.shown import ListingCommand, Progress, database_fault, showing_log, take_usual
from orbit_django.models import OutboxMessage, WorkflowStart
from orbit_django.outbox import Origin
from orbit_django.payloads import counted
from orbit_django.retention import Pruned
from orbit_django.tasks import registry
from orbit_django.transports.executions import Executions
from orbit_django.worker.binding import open_transport
from orbit_django.worker.flush import flush, flush_starts
from orbit_django.worker.worker import aliases_of

MISTAKE = 2
MOST_COUNTED = 10_000
INTERRUPTED = 130  # what a shell makes of Ctrl-C


class Command(ListingCommand):
    """Show what is owed to the runtime, results and starts of workflows; send it, or remove what is settled and old."""

    help = "Show what is owed to the runtime, results and starts of workflows; send it, or remove what is old."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the actions."""
        actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
        actions.add_parser("status", help="count messages by state, on every database alias in use")
        actions.add_parser("flush", help="send what no worker holds; exit 1 if something sendable is left")
        retry = actions.add_parser("retry", help="have every blocked message and start sent again")
        retry.add_argument(
            "--server",
            metavar="OLD",
            help="URL of the runtime whose unanswered messages, blocked or not, are moved (default: none are moved)",
        )
        retry.add_argument(
            "--to", metavar="NEW", help="URL of the runtime whose workers send them then (default: none)"
        )
        prune = actions.add_parser("prune", help="remove what is settled and old")
        prune.add_argument(
            "--days",
            metavar="N",
            help="remove what has been settled for so many days (default: the setting RETENTION_DAYS, 30); a step that"
            " comes once more after its record is gone runs its handler again, so 0 is for tests alone",
        )
        take_usual(parser, actions.choices.values())
        prune.add_argument("--dry-run", action="store_true", help="count what would be removed, and remove nothing")

    def handle(self, *args: Any, **options: Any) -> None:
        """Run the action; exit 1 when something is left to do, 2 for a mistake."""
        self._is_quiet = options["verbosity"] == 0
        self._progress = Progress(self.stderr, is_plain=options["verbosity"] > 1)
        action = {"status": self._status, "flush": self._flush, "retry": self._retry, "prune": self._prune}
        try:
            action[options["action"]](options)
        except ConfigurationError as error:
            raise CommandError(str(error), returncode=MISTAKE) from None
        except (DatabaseError, InterfaceError) as error:
            raise database_fault(error, aliases_of(conf.load(), registry)) from None

    def _status(self, options: dict[str, Any]) -> None:
        for alias in aliases_of(conf.load(), registry):
            self.stdout.write(f"{alias}: {self._counts(outbox.counts(alias))}")
            for binding, count in outbox.declined_count(alias).items():
                self.stdout.write(
                    f"{alias}: {count} of the pending cannot go over {binding}; another binding sends them"
                )
            self.stdout.write(f"{alias}, starts of workflows: {self._counts(starts.counts(alias))}")

    def _counts(self, counts: dict[str, int]) -> str:
        """Return counts by state; what is blocked stands out, and so does what waits."""
        paint = {"blocked": self.style.ERROR, "pending": self.style.WARNING, "delivered": self.style.SUCCESS}
        return ", ".join(
            paint.get(name, str)(f"{count} {name}") if count else f"{count} {name}" for name, count in counts.items()
        )

    def _say(self, text: str) -> None:
        """Print what came of an action, unless less was asked for."""
        if not self._is_quiet:
            self.stdout.write(text)

    def _flush(self, options: dict[str, Any]) -> None:
        settings = conf.load()
        aliases = aliases_of(settings, registry)
        transport = open_transport(settings)
        origin = Origin(settings.worker_name(), settings.reports_to, transport.name)
        began = timezone.now()
        with showing_log(options["verbosity"]):
            try:
                sent, left = flush(transport, origin, aliases, settings.redact, self._count("message"))
            finally:
                self._progress.show("")
                transport.close()
            starts_sent, starts_left = self._flush_starts(settings, aliases)
        self._say(f"{sent + starts_sent} sent, {left + starts_left} left")
        self._warn_of_refused(aliases, began)
        self._warn_of_blocked(aliases)
        if left:
            raise CommandError(f"{counted(left, 'message')} could not be sent now; a worker or a later flush will")
        if starts_left and not settings.may_start:
            told = f"{counted(starts_left, 'workflow')} to be started, which takes the admin token: set TOKEN"
            raise CommandError(told)
        if starts_left:
            raise CommandError(
                f"{counted(starts_left, 'workflow')} could not be started now; a worker or a later flush will"
            )

    def _warn_of_refused(self, aliases: tuple[str, ...], began: datetime) -> None:
        """Tell of what was sent and not taken: nothing is left of it to send, and nothing came of it."""
        for what, count_of in (("message", outbox.refused_count), ("workflow start", starts.refused_count)):
            if count := sum(count_of(alias, MOST_COUNTED, began)[0] for alias in aliases):
                told = f"{counted(count, what)} refused by the runtime for good: the admin shows its words"
                self.stderr.write(told)

    def _warn_of_blocked(self, aliases: tuple[str, ...]) -> None:
        """Tell of what a flush does not send, or has set aside itself: a refused credential is no loss of a report."""
        for what, model in (("message", OutboxMessage), ("workflow start", WorkflowStart)):
            if count := sum(model.objects.using(alias).blocked().count() for alias in aliases):
                self.stderr.write(f"{counted(count, what)} blocked: mend what the admin shows, then orbit_outbox retry")

    def _flush_starts(self, settings: conf.OrbitSettings, aliases: tuple[str, ...]) -> tuple[int, int]:
        """Send starts, as a worker with these settings would; return how many were sent, and how many are left."""
        if not settings.may_start:
            return 0, sum(starts.pending_count(alias) for alias in aliases)
        executions = Executions(settings)
        try:
            return flush_starts(executions, aliases, settings.redact, self._count("workflow start"))
        finally:
            self._progress.show("")
            executions.close()

    def _retry(self, options: dict[str, Any]) -> None:
        aliases = aliases_of(conf.load(), registry)
        old, new = _url(options, "server"), _url(options, "to")
        if (old is None) != (new is None):
            raise ConfigurationError("--server and --to go together: from where, and to where")
        if old is None or new is None:
            for alias in aliases:
                counts = {"messages": outbox.requeue_all(alias), "workflow starts": starts.unblock(alias)}
                self._say(f"{alias}: {_shown(counts)} will be sent again by a worker or by flush")
            return
        if old == new:
            raise ConfigurationError(f"--server and --to are the same: {new}")
        held = 0
        for alias in aliases:
            moved, left = outbox.move(alias, old, new)
            held += left
            self._say(f"{alias}: {counted(moved, 'message')} moved from {old} to {new}")
        if held:
            raise CommandError(f"{counted(held, 'message')} of {old} held by a sender now; run it again in 15 seconds")

    def _prune(self, options: dict[str, Any]) -> None:
        days = _days(options["days"])
        is_dry_run = options["dry_run"]
        for alias in aliases_of(conf.load(), registry):
            total = Pruned()
            try:
                for total in retention.prune(alias, days, is_dry_run=is_dry_run):
                    self._progress.show(f"{alias}: {_shown(asdict(total))}")
            except KeyboardInterrupt:
                told = f"{alias}: interrupted after {_shown(asdict(total))}; run it again to go on"
                raise CommandError(told, returncode=INTERRUPTED) from None
            finally:
                self._progress.show("")
            self._say(f"{alias}: {_shown(asdict(total))} {'would be removed' if is_dry_run else 'removed'}")

    def _count(self, what: str) -> Callable[[int], object]:
        """Return what shows how many have been tried so far."""
        return lambda count: self._progress.show(f"{counted(count, what)} tried")


def _shown(counts: dict[str, int]) -> str:
    return ", ".join(counted(count, name.removesuffix("s")) for name, count in counts.items())


def _url(options: dict[str, Any], name: str) -> str | None:
    """Return the URL of a server in the one spelling that messages have."""
    given = options[name]
    if given is None:
        return None
    try:
        return str(READERS["server"](given))
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"--{name}: {error}") from None


def _days(given: str | None) -> float:
    """Return the age at which things go: the option, else the setting."""
    if given is None:
        return conf.load().retention_days
    try:
        return float(READERS["retention_days"](given))
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"--days: {error}") from None

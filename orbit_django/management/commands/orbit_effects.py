"""``manage.py orbit_effects``: effects of which nobody knows whether they happened, and saying what became of them."""

from __future__ import annotations

import getpass
import json
import shlex
from collections.abc import Iterable, Sequence
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.db import DatabaseError, InterfaceError
from django.db.models import F
from django.db.models.functions import Left
from django.utils.timesince import timesince

from orbit_django import conf, effects
from orbit_django.exceptions import ConfigurationError
from orbit_django.logs import BREAKS
from orbit_django.management.shown import ListingCommand, columns, database_fault, take_usual
from orbit_django.models import Effect
from orbit_django.payloads import cut
from orbit_django.tasks import registry
from orbit_django.worker.worker import aliases_of

MISTAKE = 2
COLUMNS = ("id", "status", "age", "task", "key", "effect", "error")
WORKER, SETTLED = "worker", "settled by"
FULL = ("effect key", "earlier result")
OPEN = (Effect.Status.STARTED, Effect.Status.UNCERTAIN)
WIDTHS = (0, 0, 0, 40, 60, 40, 120, 60, 60)  # what a column may take; 0: whatever it needs


class Command(ListingCommand):
    """List effects of tasks that are not atomic, and settle those that are open."""

    help = "List the effects of which nobody knows whether they happened, and say of one whether it did."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the actions."""
        actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
        listing = actions.add_parser("list", help="open effects: started or uncertain")
        listing.add_argument("--all", action="store_true", help="finished and settled ones as well, and who settled")
        settle = actions.add_parser(
            "settle", help="say what became of an open effect, or correct that; the next run of its step goes by it"
        )
        settle.add_argument("id", metavar="ID", help="the id that list shows")
        settle.add_argument(
            "--happened",
            metavar="JSON",
            help="it happened, and brought this JSON value (default: none; one of the two is said)",
        )
        settle.add_argument("--not-happened", action="store_true", help="it did not happen, and may be called again")
        settle.add_argument("--by", metavar="NAME", help="who says so (default: the name of the system's user)")
        take_usual(parser, (listing, settle))
        for action in (listing, settle):
            action.add_argument(
                "--database", metavar="ALIAS", help="look on this database alias alone (default: every alias in use)"
            )

    def handle(self, *args: Any, **options: Any) -> None:
        """Run the action; exit 1 for an effect that cannot be settled, 2 for a mistake."""
        aliases: tuple[str, ...] = ()
        try:
            settings = conf.load(database=options["database"])
            aliases = (settings.database,) if options["database"] else aliases_of(settings, registry)
            if options["action"] == "list":
                self._list(aliases, is_all=options["all"], is_verbose=options["verbosity"] > 1)
            else:
                self._settle(aliases, options)
        except ConfigurationError as error:
            raise CommandError(str(error), returncode=MISTAKE) from None
        except (DatabaseError, InterfaceError) as error:
            raise database_fault(error, aliases) from None

    def _list(self, aliases: tuple[str, ...], *, is_all: bool, is_verbose: bool) -> None:
        more = tuple(name for name, is_shown in ((WORKER, is_verbose), (SETTLED, is_all)) if is_shown)
        lines = [line for alias in aliases for line in _lines(alias, more, is_one=len(aliases) == 1)]
        if not lines:
            self.stdout.write("no effects" if is_all else "no open effects")
            return
        head, *rows = columns((*COLUMNS, *more, *(FULL if is_verbose else ())), lines, {1: self._painted})
        for line in (self.style.MIGRATE_HEADING(head), *rows):
            self.stdout.write(line)

    def _painted(self, cell: str) -> str:
        paint = {"uncertain": self.style.ERROR, "started": self.style.WARNING, "finished": self.style.SUCCESS}
        return paint.get(cell.strip(), str)(cell)

    def _settle(self, aliases: tuple[str, ...], options: dict[str, Any]) -> None:
        result = _result(options["happened"], is_not_happened=options["not_happened"])
        effect = _find(options["id"], aliases)
        try:
            sequel = effects.settle(effect, result=result, settled_by=options["by"] or _user())
        except ValueError as error:
            raise CommandError(_plain(str(error))) from None
        told = "did not happen; the next run calls it again" if result is None else "happened; its result is kept"
        if options["verbosity"]:
            self.stdout.write(_plain(f"effect {effect.pk}, {effect.name!r}: {told}"))
            self.stdout.write(_plain(sequel))
            if note := _note(effect, result):
                self.stderr.write(_plain(note))


def _note(effect: Effect, result: str | None) -> str:
    """Return what to say of a result that has another form than what an earlier call returned."""
    before, given = effects.earlier_shape(effect), effects.shape_of(result or "null")
    if result is None or before in ("", given) or registry.hides(effect.record.task_name):
        return ""
    return f"what an earlier call of it returned had the form {before}, this is {given}; settle again to correct it"


def _full(key: int, alias: str) -> tuple[str, str]:
    """Return what -v 2 shows besides: by what the other side may know the call, and what an earlier one returned."""
    effect = Effect.objects.using(alias).select_related("record").get(pk=key)
    is_shown = effect.is_open and not registry.hides(effect.record.task_name)
    return effects.key_of(effect) or "-", (effects.earlier_shape(effect) if is_shown else "") or "-"


def _lines(alias: str, more: Sequence[str], *, is_one: bool) -> Iterable[tuple[str, ...]]:
    """Yield the columns of each effect; the boundless ones are cut by the database.

    ``more`` names the columns behind the usual ones; that of who settled is asked for with the settled ones.
    """
    rows = Effect.objects.using(alias)
    found = (rows.all() if SETTLED in more else rows.open()).annotate(
        task=F("record__task_name"),
        key=Left("record__idempotency_key", 255),
        told=Left("error", 255),
        worker=F("record__worker_id"),
    )
    for row in found.order_by("pk").values(
        "pk", "status", "started_at", "task", "key", "name", "told", "worker", "settled_by"
    ):
        error = row["told"] if row["status"] in OPEN else ""  # the one that was settled is no trouble any more
        cells = (
            str(row["pk"]) if is_one else f"{row['pk']} on {alias}",
            row["status"],
            timesince(row["started_at"], depth=1).replace("\xa0", " "),
            row["task"],
            row["key"],
            row["name"],
            "hidden" if error and registry.hides(row["task"]) else error,
            *(row["worker"] if name == WORKER else row["settled_by"] for name in more),
        )
        full = _full(row["pk"], alias) if WORKER in more else ()
        yield (*(_plain(cut(cell, width or len(cell))) for cell, width in zip(cells, WIDTHS, strict=False)), *full)


def _find(given: str, aliases: tuple[str, ...]) -> Effect:
    """Return the effect with this id, which must be on one of the aliases alone."""
    if not given.isascii() or not given.isdecimal() or len(given) > 18:
        raise ConfigurationError(f"ID: expected a whole number, as list shows it, found {given[:100]!r}")
    found = [row for alias in aliases for row in Effect.objects.using(alias).filter(pk=int(given))]
    if not found:
        raise CommandError(f"there is no effect {given} on {', '.join(aliases)}")
    if len(found) > 1:
        raise ConfigurationError(f"there is an effect {given} on several databases: say which by --database")
    return found[0]


def _result(happened: str | None, *, is_not_happened: bool) -> str | None:
    if (happened is not None) == is_not_happened:
        raise ConfigurationError("say what became of it: --happened with its result as JSON, or --not-happened")
    try:
        return None if happened is None else effects.read_result(happened)
    except ValueError as error:
        quoted = f"; a text is JSON in double quotes: --happened {shlex.quote(json.dumps(cut(happened or '', 40)))}"
        raise ConfigurationError(f"--happened: this is no JSON value: {error}{quoted}") from None


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # a system that has no name for this user
        return "orbit_effects"


def _plain(text: str) -> str:
    """Return a text that stays on its line and steers no terminal."""
    return BREAKS.sub(lambda found: ascii(found[0])[1:-1], text)

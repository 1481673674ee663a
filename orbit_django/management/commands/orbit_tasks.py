"""``manage.py orbit_tasks``: the tasks of this project, compared with contracts and with the workers of the runtime."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from typing import Any

from django.core.management.base import CommandError, CommandParser

from orbit_django import checks, conf, contracts
from orbit_django.agreement import Difference, Served, served, stubs
from orbit_django.client import Client
from orbit_django.conf import OrbitSettings
from orbit_django.exceptions import ConfigurationError, OrbitError
from orbit_django.logs import BREAKS
from orbit_django.management.shown import ListingCommand, columns
from orbit_django.payloads import counted
from orbit_django.tasks import Task, registry

MISTAKE = 2
HEAD = ("task", "version", "handler", "mode", "database", "contract", "workers")


@dataclass
class Comparison:
    """What was found, beside the tasks themselves."""

    faults: list[str] = field(default_factory=list)  # handlers that cannot be served, files that cannot be read
    differences: list[Difference] = field(default_factory=list)
    has_contracts: bool = False  # whether there are any, and they could be read
    served: Served | None = None  # None: the runtime was not asked, or did not answer
    runtime: str = ""  # what came of asking it

    @property
    def is_agreed(self) -> bool:
        """Whether handlers, contracts and workers say the same."""
        return not (self.faults or self.differences or (self.served and self.served.lacking))


class Command(ListingCommand):
    """List the handlers that were found, and say in what they differ from contracts and workers."""

    help = "List the tasks of this project and compare them with CONTRACTS and with the workers of the runtime."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the options."""
        parser.add_argument("--json", action="store_true", help="print one JSON object instead of columns")
        parser.add_argument(
            "--stubs",
            nargs="*",
            metavar="FILE.orbit",
            help="print handlers to begin with, as Python: for every task of these files, or without one for each "
            "task of CONTRACTS that has no handler yet (default: list the tasks)",
        )
        parser.add_argument(
            "--server", metavar="URL", help="the runtime to ask for its workers (default: the setting SERVER)"
        )
        parser.add_argument(
            "--offline", action="store_true", help="compare with CONTRACTS alone, do not ask the runtime"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Print; exit 1 when something differs or is at fault, 2 for a setting that cannot be used."""
        try:
            settings = conf.load(server=options["server"])
            if options["stubs"] is not None:
                self._stubs(settings, options["stubs"])
                return
        except ConfigurationError as error:
            raise CommandError(str(error), returncode=MISTAKE) from None
        tasks = tuple(registry)
        found = _compare(settings, tasks)
        if not options["offline"]:
            found.served, found.runtime = _ask(settings, tasks)
        if options["json"]:
            self.stdout.write(json.dumps(_object(settings, tasks, found), indent=2))
        else:
            self._show(tasks if options["verbosity"] else (), settings, found)
        if not found.is_agreed:
            self.stdout.flush()
            sys.exit(1)

    def _show(self, tasks: Sequence[Task], settings: OrbitSettings, found: Comparison) -> None:
        rows = [_row(task, settings, found) for task in tasks]
        if rows:
            paint = {0: self.style.MIGRATE_LABEL, 5: self._painted, 6: self._painted}
            head, *lines = columns(HEAD, rows, paint)
            for line in (self.style.MIGRATE_HEADING(head), *lines):
                self.stdout.write(line)
        elif not len(registry):
            self.stdout.write("no tasks: no tasks_orbit module of an installed app has a @task handler")
        for text in found.faults:
            self.stdout.write(f"{self.style.ERROR('error')} {_plain(text)}")
        for each in found.differences:
            word = self.style.ERROR("error") if each.is_wrong else self.style.WARNING("warning")
            self.stdout.write(f"{word} {each.code} {_plain(each.text)}  -> {_plain(each.advice)}")
        for contract in found.served.lacking if found.served else ():
            told = f"{contract.task_name} {contract.contract_version}: workers of this project run, none serves it"
            self.stdout.write(f"{self.style.WARNING('warning')} {_plain(told)}  -> Restart them with the newest code.")
        if found.runtime and tasks:
            self.stdout.write(_plain(found.runtime))

    def _painted(self, cell: str) -> str:
        paint = {"agrees": self.style.SUCCESS, "differs": self.style.ERROR, "none": self.style.WARNING}
        return paint.get(cell.strip(), str)(cell)

    def _stubs(self, settings: OrbitSettings, files: Sequence[str]) -> None:
        """Print handlers to begin with."""
        handled = set() if files else {(task.contract.task_name, task.contract.contract_version) for task in registry}
        declared = contracts.load(files or settings.contracts).tasks
        wanted = [contract for key, contract in declared.items() if key not in handled]
        if not wanted:
            told = "every task of CONTRACTS has a handler" if declared else "no task is declared"
            raise ConfigurationError(f"{told}; name the .orbit file that handlers are wanted for")
        self.stdout.write(stubs(wanted), ending="")


def _compare(settings: OrbitSettings, tasks: Sequence[Task]) -> Comparison:
    found = Comparison(checks.handler_faults(tasks))
    try:
        found.differences = checks.differences(settings, tasks)
        found.has_contracts = bool(settings.contracts)
    except ConfigurationError as error:
        found.faults.append(str(error))
    return found


def _ask(settings: OrbitSettings, tasks: Sequence[Task]) -> tuple[Served | None, str]:
    """Ask the runtime who serves the tasks; return that, and one line about how it went."""
    if not settings.may_start:
        return None, f"runtime {settings.server} was not asked for its workers: that takes the admin token, TOKEN"
    try:
        with closing(Client(settings)) as client:
            found = served(tasks, client.workers())
    except OrbitError as error:
        text = settings.redact(str(error))
        return None, f"runtime {settings.server} could not be asked for its workers: {text}"
    return found, f"runtime {settings.server}: {counted(found.online, 'worker')} online"


def _row(task: Task, settings: OrbitSettings, found: Comparison) -> tuple[str, ...]:
    name, version = task.contract.task_name, task.contract.contract_version
    count = "-" if found.served is None else str(found.served.counts.get(task.contract, "none"))
    return tuple(
        _plain(cell)
        for cell in (
            name,
            version,
            task.place,
            "atomic" if task.is_atomic else "not atomic",
            task.using or settings.database,
            _verdict(task, found),
            count,
        )
    )


def _verdict(task: Task, found: Comparison) -> str:
    """Return how a task stands to its contract, in one word."""
    about = [
        each
        for each in found.differences
        if each.task_name == task.contract.task_name and each.version in ("", task.contract.contract_version)
    ]
    if not found.has_contracts:
        return "-"
    return "differs" if about else "agrees"


def _object(settings: OrbitSettings, tasks: Sequence[Task], found: Comparison) -> dict[str, Any]:
    rows = [dict(zip(HEAD, _row(task, settings, found), strict=True)) for task in tasks]
    lacking = [asdict(contract) for contract in found.served.lacking] if found.served else []
    return {
        "agreed": found.is_agreed,
        "tasks": rows,
        "faults": found.faults,
        "differences": [asdict(each) for each in found.differences],
        "runtime": {"server": settings.server, "told": found.runtime, "lacking": lacking},
    }


def _plain(text: str) -> str:
    """Return a text that stays on its line and steers no terminal."""
    return BREAKS.sub(lambda found: ascii(found[0])[1:-1], text)

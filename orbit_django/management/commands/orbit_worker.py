"""``manage.py orbit_worker``: options, logging and exit code of a worker, alone or under a supervisor."""

from __future__ import annotations

import logging
import sys
from argparse import SUPPRESS
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

from django.conf import settings as project
from django.core.checks import WARNING, run_checks
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError, InterfaceError, connections

from orbit_django import checks, conf, contracts
from orbit_django.agreement import NO_HANDLER
from orbit_django.conf import OrbitSettings
from orbit_django.conf.options import RunOptions, read_options
from orbit_django.exceptions import ConfigurationError, ContractSyntaxError
from orbit_django.logs import SteadyLogger
from orbit_django.management.shown import level_of, set_up_logging
from orbit_django.payloads import counted
from orbit_django.tasks import Task, registry
from orbit_django.transports.base import Transport
from orbit_django.worker import interpreter
from orbit_django.worker.binding import check_ready, is_credential_exposed, open_transport
from orbit_django.worker.child import Program
from orbit_django.worker.leaving import GRACE_SECONDS, leave_at_once, leave_within
from orbit_django.worker.lifeline import Lifeline
from orbit_django.worker.probes.server import answering
from orbit_django.worker.probes.whole import report
from orbit_django.worker.processes import Supervisor
from orbit_django.worker.reload import Reloader
from orbit_django.worker.session import credential_advice
from orbit_django.worker.stops import deaf_shell, leaving_on_signals
from orbit_django.worker.worker import Worker, aliases_of

MISTAKE = 2
COMPARED = ("W003", "W004", "W005", "W006")  # told of the tasks that are served, and of no others
SETTINGS = ("concurrency", "worker_id", "server", "transport", "drain_timeout")
HANDED_ON = (
    *SETTINGS,
    "health",
    "task",
    "exclude",
    "max_tasks",
    "burst",
    "reload",
    "verbosity",
)  # to the processes of a supervisor
# Each option by its names; a value that is not given comes from settings.ORBIT, the environment, or the default.
OPTIONS: dict[str, dict[str, Any]] = {
    "-c --concurrency": {
        "metavar": "N",
        "help": "poll loops, and so handlers at the same time in one process (default: the setting CONCURRENCY, 4)",
    },
    "-p --processes": {
        "metavar": "N",
        "help": "worker processes under a supervisor that replaces one that died (default: no supervisor, one process)",
    },
    "--max-tasks": {
        "metavar": "N",
        "help": "end after so many tasks; a supervised process is replaced then (default: no limit)",
    },
    "--burst": {"action": "store_true", "help": "end when nothing is left to do; exit 1 when nobody answered for 30 s"},
    "--reload": {"action": "store_true", "help": "start afresh when a file of the project changes, for development"},
    "--worker-id": {
        "metavar": "ID",
        "help": "identity to register under (default: the setting WORKER_ID, python-<host>-<pid>)",
    },
    "--server": {"metavar": "URL", "help": f"the runtime (default: the setting SERVER, {conf.DEFAULT_SERVER})"},
    "--transport": {
        "metavar": "NAME",
        "help": "binding of the protocol: http, grpc, weave, or a dotted path (default: the setting TRANSPORT, http)",
    },
    "--task": {
        "nargs": "+",
        "default": [],
        "metavar": "PATTERN",
        "help": "serve only tasks whose names match, with * and ? as in file names (default: all)",
    },
    "--exclude": {
        "nargs": "+",
        "default": [],
        "metavar": "PATTERN",
        "help": "do not serve tasks whose names match (default: none)",
    },
    "--drain-timeout": {
        "metavar": "SECONDS",
        "help": "time for running handlers after the first signal (default: the setting DRAIN_TIMEOUT, no limit)",
    },
    "--health": {
        "metavar": "[HOST:]PORT",
        "help": "answer /livez, /readyz and /metrics there; HOST is 127.0.0.1 unless given (default: do not)",
    },
    "--check": {"action": "store_true", "help": "look at settings, tasks, contracts and databases, then exit"},
}
logger = SteadyLogger(logging.getLogger("orbit_django.worker"))


class Command(BaseCommand):
    """Poll the runtime for tasks, run their handlers, report their results."""

    help = "Work for an ORBIT runtime: poll for tasks, run handlers, report results, until SIGTERM or Ctrl-C."
    requires_system_checks: list[str] = []
    _is_program = False  # whether this process was started as this command

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the options; each wins over settings.ORBIT and the environment."""
        for names, said in OPTIONS.items():
            parser.add_argument(*names.split(), **said)
        parser.add_argument("--lifeline", help=SUPPRESS)

    def run_from_argv(self, argv: list[str]) -> None:
        """Run, and end the process if it is this command's: a supervisor may start it again, nothing may hold it."""
        self._is_program = interpreter.is_program(argv)
        code: object = 1
        try:
            super().run_from_argv(argv)
            code = 0
        except SystemExit as ended:
            code = ended.code
            raise
        finally:
            if self._is_program:
                leave_within(GRACE_SECONDS, code if isinstance(code, int) else 1)

    def handle(self, *args: Any, **options: Any) -> None:
        """Run until stopped; exit 0 after an orderly end, 1 after a hasty one, 2 for a mistake."""
        lifeline: Lifeline | None = None
        try:
            how = read_options(options)
            lifeline = Lifeline(how.lifeline) if how.lifeline is not None else None
            with leaving_on_signals():
                code = self._run(how, lifeline, options)
        except ConfigurationError as error:
            if lifeline is not None:
                lifeline.mistake(str(error))
                sys.exit(MISTAKE)  # the supervisor says it, once for all
            raise CommandError(str(error), returncode=MISTAKE) from None
        if code and self._is_program:
            leave_at_once(code)
        elif code:
            sys.exit(code)

    def _run(self, how: RunOptions, lifeline: Lifeline | None, options: dict[str, Any]) -> int:
        settings, tasks, transport = _prepare(options)
        if lifeline is None:
            _warn(settings)
        if options["check"]:
            self._compare(settings, tasks)
            self._warn_of_checks()
            self._warn_of_migrations(aliases_of(settings, tasks))
            self.stdout.write(f"{counted(len(tasks), 'task')} for {settings.reports_to}: ready to start")
            return 0
        if lifeline is not None or (how.processes is None and not how.reload):
            return _work(Worker(settings, tasks, transport, how=how), lifeline, how, settings.credential_source)
        transport.close()
        connections.close_all()
        supervisor = self._supervisor(how, options)
        with answering(how.health, supervisor.health):
            return supervisor.run()

    def _compare(self, settings: OrbitSettings, tasks: Sequence[Task]) -> None:
        """Tell in what the tasks differ from CONTRACTS; raise ConfigurationError where none of them could succeed.

        What nobody serves is told by a worker that serves all there is.
        """
        names, is_whole = {task.contract.task_name for task in tasks}, len(tasks) == len(registry)
        for each in checks.differences(settings, registry):
            is_about = each.task_name in names or (is_whole and each.code == NO_HANDLER)
            if is_about and each.is_wrong:
                raise ConfigurationError(each.text)
            if is_about and f"orbit_django.{each.code}" not in project.SILENCED_SYSTEM_CHECKS:
                self.stderr.write(f"{each.code} {each.text}", self.style.WARNING)

    def _warn_of_checks(self) -> None:
        """Tell what else this app's checks warn of, those of a deployment included, and nothing that is silenced."""
        for each in run_checks(tags=["orbit_django"], include_deployment_checks=True):
            code = each.id.removeprefix("orbit_django.") if each.id else ""
            if each.level == WARNING and code not in COMPARED and not each.is_silenced():
                hint = f"  -> {each.hint}" if each.hint else ""
                self.stderr.write(f"{code} {each.msg}{hint}", self.style.WARNING)

    def _warn_of_migrations(self, aliases: Iterable[str]) -> None:
        """Tell what the databases lack of the project's own migrations; a worker starts all the same."""
        for text, advice in checks.unmigrated_changes():
            self.stderr.write(f"{text}  -> {advice}", self.style.WARNING)
        for alias in aliases:
            with suppress(DatabaseError, InterfaceError):  # the worker waits for one that is away
                if lack := checks.project_lacks(alias):
                    told = f"database {alias!r} lacks {lack}  -> {checks.how_to_migrate(alias)}"
                    self.stderr.write(told, self.style.WARNING)
            connections[alias].close()

    def _supervisor(self, how: RunOptions, options: dict[str, Any]) -> Supervisor:
        if how.reload:
            return Reloader(self._program(options))
        return Supervisor(self._program(options), how.processes or 1, is_burst=how.burst)

    def _program(self, options: dict[str, Any]) -> Program:
        if self._is_program:
            return Program(interpreter.same_program())
        line = interpreter.command("orbit_worker", {name: options[name] for name in HANDED_ON})
        return Program(line, interpreter.surroundings())


def _prepare(options: dict[str, Any]) -> tuple[OrbitSettings, Sequence[Task], Transport]:
    """Check everything that can be checked before the start; raise ConfigurationError for a mistake."""
    settings = conf.load(**{name: options[name] for name in SETTINGS})
    set_up_logging(level_of(options["verbosity"], settings))
    tasks = registry.select(options["task"], options["exclude"]) if not registry.faults else ()
    transport = open_transport(settings)
    checks.preflight(registry, tasks, aliases_of(settings, tasks))
    _load_contracts(settings)
    check_ready(settings, tasks)
    return settings, tasks, transport


def _load_contracts(settings: OrbitSettings) -> None:
    """Raise ConfigurationError for a file that cannot be read: results are held to what it says."""
    try:
        contracts.load(settings.contracts)
    except ContractSyntaxError:
        raise  # begins with its place
    except ConfigurationError as error:
        raise ConfigurationError(f"CONTRACTS: {error}") from None


def _warn(settings: OrbitSettings) -> None:
    """Tell what will probably go wrong; once, and not from each process of a supervisor."""
    if is_credential_exposed(settings):
        logger.warning("the credential travels unencrypted to another machine; use https")
    if shell := deaf_shell():
        logger.warning(
            "a shell is process 1 and keeps SIGTERM to itself; begin its command with exec", extra={"shell": shell}
        )


def _work(worker: Worker, lifeline: Lifeline | None, how: RunOptions, source: str) -> int:
    """Run the worker in this process; raise ConfigurationError when the runtime refuses it.

    ``source`` is the setting that its credential came from, "" for none.
    """
    worker.vitals.is_watched = how.health is not None
    if lifeline is not None:
        worker.vitals.on_first_task = lifeline.received
        lifeline.start(worker.stops, lambda: report(worker.health.condition()), is_reloading=how.reload)
    with answering(how.health if lifeline is None else None, worker.health):
        code = worker.run()
    if worker.refusal is not None:
        advice = credential_advice(worker.refusal, source)
        raise ConfigurationError(f"the runtime refuses this worker: {worker.refusal}{'; ' * bool(advice)}{advice}")
    if lifeline is not None and not code:
        lifeline.ended()
    return code

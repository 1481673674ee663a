"""``manage.py orbit_start``: start an execution from the command line, and wait for its end if asked to."""

from __future__ import annotations

import json
from argparse import ArgumentParser, ArgumentTypeError
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, NoReturn

from django.core.management.base import BaseCommand, CommandError

from orbit_django import conf, contracts
from orbit_django.client import RUNNING, Client
from orbit_django.exceptions import ConfigurationError, OrbitError, PayloadError, RefusedError, TransportError
from orbit_django.protocol import Code
from orbit_django.transports.executions import advice_for

COMPLETED = "COMPLETED"
QUEUED, IN_FLIGHT = "QUEUED", "IN_FLIGHT"  # how the embedded runtime shows a step
MISTAKE = 2
REFUSED_INPUT = (400, 422)  # how a runtime says that the input is not what the workflow declares


class Command(BaseCommand):
    help = "Start an execution of a workflow; with --wait, exit 0 only when it has completed."
    requires_system_checks = []
    soon_seconds = 5.0  # so long nobody is told why nothing happens

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("workflow", help="name of the workflow")
        parser.add_argument(
            "--input",
            default="{}",
            metavar="JSON",
            help="the input, a JSON object, or @ and the name of a file that holds it (default: {})",
        )
        parser.add_argument(
            "--id", help="id of the execution; the same id never starts a second one (default: a new one)"
        )
        parser.add_argument("--wait", action="store_true", help="wait for the end and print the output")
        parser.add_argument(
            "--timeout",
            type=_seconds,
            metavar="SECONDS",
            help="wait no longer than so many seconds (default: no limit)",
        )

    def handle(self, *_: Any, workflow: str, **options: Any) -> None:
        given = _read_input(options["input"])
        try:
            with closing(Client()) as client:
                started = client.start(workflow, given, execution_id=options["id"])
                self.stdout.write(started)
                self.stdout.flush()
                if options["verbosity"]:
                    self._tell_version(client, started)
                if options["wait"]:
                    self._show(self._wait(client, started, options["timeout"]))
        except (ConfigurationError, PayloadError) as error:
            raise CommandError(str(error), returncode=MISTAKE) from None
        except RefusedError as error:
            is_mistake = error.is_from_runtime and error.status in REFUSED_INPUT
            text = "; ".join(filter(None, (str(error), advice_for(error))))
            raise CommandError(text, returncode=MISTAKE if is_mistake else 1) from None
        except TransportError as error:
            raise CommandError(str(error)) from None

    def _tell_version(self, client: Client, execution_id: str) -> None:
        """Tell which version runs, and warn when CONTRACTS declares another; without a word if the runtime has none."""
        with suppress(TransportError, ConfigurationError):
            view = client.get(execution_id)
            name, version = view.get("workflow"), view.get("version")
            if not isinstance(name, str) or not isinstance(version, str):
                return
            self.stderr.write(f"started {name} {version}", str)
            if declared := _declared(name, version):
                told = f"the runtime runs {name} {version}, CONTRACTS declares {declared}: was it restarted?"
                self.stderr.write(told)
            self.stderr.flush()

    def _wait(self, client: Client, execution_id: str, seconds: float | None) -> dict[str, Any]:
        """Wait for the end, and say once what keeps it when it does not come soon."""
        soon = self.soon_seconds if seconds is None else min(seconds, self.soon_seconds)
        view = client.wait(execution_id, timeout_seconds=soon)
        if view.get("status") != RUNNING or (seconds is not None and seconds <= soon):
            return view
        self.stderr.write(_hindrance(view, client))
        self.stderr.flush()
        return client.wait(execution_id, timeout_seconds=None if seconds is None else seconds - soon)

    def _show(self, view: dict[str, Any]) -> None:
        """Print what became of the execution; raise CommandError unless it has completed."""
        status = str(view.get("status"))
        self.stdout.write(status)
        if status == COMPLETED:
            self.stdout.write(json.dumps(view.get("output"), ensure_ascii=False, indent=2))
            return
        if status == RUNNING:
            raise CommandError("the execution is still running; --timeout is over")
        raise CommandError(f"the execution ended {status}: {_told(view.get('error'))}")


def _seconds(text: str) -> float:
    with suppress(ValueError):
        if (seconds := float(text)) >= 0:
            return seconds
    raise ArgumentTypeError(f"expected seconds from 0, found {text!r}")


def _read_input(text: str) -> Any:
    source = "--input"
    try:
        if text.startswith("@"):
            source = text[1:]
            text = Path(source).read_text(encoding="utf-8")
        given = json.loads(text, parse_constant=_refuse)
    except OSError as error:
        raise CommandError(f"{source} cannot be read: {error.strerror}", returncode=MISTAKE) from None
    except (ValueError, RecursionError) as error:
        raise CommandError(f"{source} holds no valid JSON: {error}", returncode=MISTAKE) from None
    if not isinstance(given, dict):
        text = f"{source} holds no JSON object, which the input of a workflow is: {{…}}"
        raise CommandError(text, returncode=MISTAKE)
    return given


def _declared(name: str, version: str) -> str:
    """Return the version that CONTRACTS would have started; "" for this one, or for none."""
    wanted = contracts.load(conf.load().contracts).workflow(name)
    return wanted.version if wanted is not None and wanted.version != version else ""


def _hindrance(view: dict[str, Any], client: Client) -> str:
    """Return what keeps an execution, as far as this runtime shows its steps."""
    shown = view.get("steps")
    steps = [step for step in shown if isinstance(step, dict)] if isinstance(shown, list) else []
    waiting = [step for step in steps if step.get("status") == QUEUED]
    if waiting and not any(step.get("status") == IN_FLIGHT for step in steps):
        head, name, version = (waiting[0].get(key) for key in ("step", "task_name", "contract_version"))
        if name is None:
            return f"no worker has taken it yet: step {head} waits; does orbit_worker run, and serve its task?"
        return f"no worker has taken it yet: step {head} waits for {name} {version}; {_served(client, name, version)}"
    return "still running"


def _served(client: Client, name: str, version: Any) -> str:
    """Return what the workers that are there serve of a task; the question alone where the runtime does not tell."""
    try:
        contracts = [each for worker in client.workers() if worker.get("online") for each in worker["contracts"]]
        found = {str(each["contract_version"]) for each in contracts if each["task_name"] == name}
    except (OrbitError, LookupError, TypeError, AttributeError):
        return "does orbit_worker run, and serve it?"
    if not contracts:
        return "no worker is there: start manage.py orbit_worker"
    if not found:
        return "the workers that are there do not serve it"
    others = ", ".join(sorted(found - {str(version)}))
    return "those that serve it are busy" if str(version) in found else f"workers serve it in version {others} alone"


def _refuse(literal: str) -> NoReturn:
    raise ValueError(f"{literal} is not JSON")


def _told(error: Any) -> str:
    """Return the runtime's words for a failure, on one line."""
    if isinstance(error, dict) and "code" in error:
        details = error.get("details")
        kind = details.get("type") if error["code"] == Code.UNHANDLED_EXCEPTION and isinstance(details, dict) else None
        return f"{error['code']}: {error.get('message', '')}" + (f" ({kind})" if isinstance(kind, str) else "")
    return "no reason given" if error is None else str(error)

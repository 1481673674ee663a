"""``manage.py orbit_start``: start an execution from the command line, and wait for its end if asked to."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from pathlib import Path
from typing import Any, NoReturn

from django.core.management.base import BaseCommand, CommandError

from orbit_django.client import RUNNING, Client
from orbit_django.exceptions import ConfigurationError, PayloadError, TransportError

COMPLETED = "COMPLETED"


class Command(BaseCommand):
    help = "Start an execution of a workflow; with --wait, exit 0 only when it has completed."
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("workflow", help="name of the workflow")
        parser.add_argument(
            "--input", default="{}", help="the input as JSON, or @ and the name of a file that holds it"
        )
        parser.add_argument("--id", help="id of the execution; the same id never starts a second one")
        parser.add_argument("--wait", action="store_true", help="wait for the end and print the output")
        parser.add_argument("--timeout", type=float, metavar="SECONDS", help="wait no longer than this")

    def handle(self, *_: Any, workflow: str, **options: Any) -> None:
        given = _read_input(options["input"])
        try:
            client = Client()
            try:
                started = client.start(workflow, given, execution_id=options["id"])
                self.stdout.write(started)
                if options["wait"]:
                    self._show(client.wait(started, timeout_seconds=options["timeout"]))
            finally:
                client.close()
        except ConfigurationError as error:
            raise CommandError(str(error), returncode=2) from None
        except (TransportError, PayloadError) as error:
            raise CommandError(str(error)) from None

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


def _read_input(text: str) -> Any:
    source = "--input"
    try:
        if text.startswith("@"):
            source = text[1:]
            text = Path(source).read_text(encoding="utf-8")
        return json.loads(text, parse_constant=_refuse)
    except OSError as error:
        raise CommandError(f"{source} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise CommandError(f"{source} holds no valid JSON: {error}") from None


def _refuse(literal: str) -> NoReturn:
    raise ValueError(f"{literal} is not JSON")


def _told(error: Any) -> str:
    """Return the runtime's words for a failure, on one line."""
    if isinstance(error, dict) and "code" in error:
        return f"{error['code']}: {error.get('message', '')}"
    return "no reason given" if error is None else str(error)

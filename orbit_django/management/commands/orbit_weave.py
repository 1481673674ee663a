"""``manage.py orbit_weave``: admits a release to a Weave platform, and says how things stand there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.db import DatabaseError, InterfaceError

from orbit_django import conf, contracts, outbox
from orbit_django.agreement.capabilities import capabilities
from orbit_django.conf.token_file import TokenFile
from orbit_django.conf.weave import WEAVE, WeaveSettings
from orbit_django.contracts.names import instead
from orbit_django.doctor.findings import Level
from orbit_django.doctor.weave import look_at_weave
from orbit_django.exceptions import ConfigurationError, NoAnswerError, RefusedError
from orbit_django.management.shown import ListingCommand, database_fault, take_usual
from orbit_django.payloads import counted
from orbit_django.tasks import Task, registry
from orbit_django.transports.weave.admission import Admission
from orbit_django.worker.binding import wire_options
from orbit_django.worker.worker import aliases_of

MISTAKE = 2
SIDE_EFFECTS = ("read_only", "idempotent", "idempotency_key", "non_idempotent")


class Command(ListingCommand):
    """Admit a release of this project's handlers to a Weave platform, or show how things stand."""

    help = "Admit a release of this project's handlers to a Weave platform, or show how things stand there."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the actions."""
        actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
        admit = actions.add_parser("admit", help="make a build and the capabilities of its handlers known")
        admit.add_argument(
            "--image-digest", metavar="DIGEST", help="sha256:… of the image (default: the key IMAGE_DIGEST of WEAVE)"
        )
        admit.add_argument(
            "--token-file",
            metavar="FILE",
            help="a file with a deployer's token; workers may not admit (default: the token that WEAVE names)",
        )
        admit.add_argument(
            "--side-effect",
            choices=SIDE_EFFECTS,
            default="idempotency_key",
            help="what every handler is declared as (default: idempotency_key, which a record per key makes of it)",
        )
        admit.add_argument(
            "--timeout", type=int, default=300, metavar="SECONDS", help="seconds that each task may take (default: 300)"
        )
        admit.add_argument(
            "--credentials",
            nargs="+",
            default=[],
            metavar="PATTERN",
            help="tasks that may ask for credentials, with * and ? as in file names (default: none)",
        )
        admit.add_argument(
            "--bindings", metavar="FILE", help="a JSON file with a list of connector bindings (default: none)"
        )
        admit.add_argument("--dry-run", action="store_true", help="print the request, and send nothing")
        actions.add_parser("status", help="the environment, the token, the release, and what is owed; exit 1 if wrong")
        take_usual(parser, actions.choices.values())

    def handle(self, *args: Any, **options: Any) -> None:
        """Run the action; exit 1 when the platform refuses or something is wrong, 2 for a mistake."""
        try:
            if options["action"] == "admit":  # a deployer needs no worker's token
                self._admit(conf.load(transport=conf.OrbitSettings.transport), options)
            else:
                self._status(_used(conf.load()))
        except ConfigurationError as error:
            raise CommandError(str(error), returncode=MISTAKE) from None

    def _admit(self, settings: conf.OrbitSettings, options: dict[str, Any]) -> None:
        request = _request(settings, options)
        if options["dry_run"]:
            self.stdout.write(json.dumps(request, indent=2))
            return
        weave = settings.weave
        if options["token_file"]:
            token = TokenFile(options["token_file"], "--token-file").read()
            weave = replace(weave, token=token, token_file=None, oauth=None)
        admission = Admission(weave, **wire_options(settings))
        try:
            release_id = admission.admit(request)
        except RefusedError as error:
            raise CommandError(settings.redact(str(error))) from None
        except NoAnswerError as error:
            raise CommandError(f"{settings.redact(str(error))}; the same command again is safe") from None
        finally:
            admission.close()
        known = "is the one in WEAVE['RELEASE_ID'], admitted before with this very request"
        told = known if release_id == weave.release_id else "is admitted: set WEAVE['RELEASE_ID'] to it"
        self.stdout.write(f"release {release_id} {told}")

    def _status(self, settings: conf.OrbitSettings) -> None:
        is_wrong = False
        for finding in look_at_weave(settings, registry):
            is_wrong = is_wrong or finding.level is Level.WRONG
            advice = f"  -> {finding.advice}" if finding.advice else ""
            self.stdout.write(settings.redact(f"{finding.level.value:<5} {finding.about}: {finding.text}{advice}"))
        for line in _owed(settings.weave):
            self.stdout.write(line)
        if is_wrong:
            raise CommandError("something is wrong, see above")


def _used(settings: conf.OrbitSettings) -> conf.OrbitSettings:
    """Return the settings; raise ConfigurationError for those of a project that does not speak to a Weave platform."""
    if settings.weave == WeaveSettings():
        transport = conf.load().transport
        raise ConfigurationError(f"this project does not use Weave: TRANSPORT is {transport!r}, and ORBIT has no WEAVE")
    return settings


def _request(settings: conf.OrbitSettings, options: dict[str, Any]) -> dict[str, Any]:
    """Return what is to be admitted; raise ConfigurationError for what cannot be."""
    if not options["image_digest"]:
        _used(settings)
    digest = options["image_digest"] or settings.weave.image_digest
    try:
        digest = WEAVE["IMAGE_DIGEST"](digest or "nothing")
    except ValueError as error:
        raise ConfigurationError(f"--image-digest: {error}") from None
    if registry.faults or not len(registry):
        raise ConfigurationError(next(iter(registry.faults), "there are no handlers to admit"))
    declared = capabilities(
        registry,
        contracts.load(settings.contracts),
        side_effect=options["side_effect"],
        timeout_seconds=options["timeout"],
    )
    request: dict[str, Any] = {"image_digest": digest, "capabilities": declared}
    if options["credentials"]:
        request["credential_capabilities"] = _chosen(tuple(registry), options["credentials"])
    if options["bindings"]:
        request["connector_bindings"] = _bindings(options["bindings"])
    return request


def _chosen(tasks: tuple[Task, ...], patterns: list[str]) -> list[str]:
    names = [(task.contract.task_name, task.contract.contract_version) for task in tasks]
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name, _ in names):
            meant = instead(pattern, (name for name, _ in names))
            told = f"--credentials: the pattern {pattern!r} matches none of {counted(len(names), 'task')}{meant}"
            raise ConfigurationError(told)
    return [f"{name}@{version}" for name, version in names if any(fnmatchcase(name, each) for each in patterns)]


def _bindings(path: str) -> list[Any]:
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"--bindings: {path} cannot be read: {error}") from None
    if not isinstance(found, list):
        raise ConfigurationError(f"--bindings: {path} holds no list")
    return found


def _owed(weave: WeaveSettings) -> Iterator[str]:
    """Yield what is owed to this environment, for each database alias in use."""
    for alias in aliases_of(conf.load(), registry):
        try:
            found = outbox.counts(alias, weave.address)
        except (DatabaseError, InterfaceError) as error:
            yield f"{alias}: {database_fault(error, [alias])}"
        else:
            yield f"{alias}: " + ", ".join(f"{count} {status}" for status, count in found.items())

"""What commands show: columns under headings, how far a long work has come, a database that fails them, the log.

A reader that leaves early, as ``head`` does, is no error of a command.
"""

from __future__ import annotations

import logging
import os
import sys
from argparse import SUPPRESS
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress

from django.core.management.base import BaseCommand, CommandError, CommandParser, OutputWrapper
from django.db import DatabaseError, InterfaceError

from orbit_django.checks import migrations_fault
from orbit_django.conf import OrbitSettings
from orbit_django.logs import ExtrasFormatter, LineHandler

Paint = Callable[[str], str]


class ListingCommand(BaseCommand):
    """A command whose lines may be piped into a reader that leaves before the last of them."""

    def run_from_argv(self, argv: list[str]) -> None:
        """Run as a program; exit 1 without a word when nobody reads any more."""
        try:
            try:
                super().run_from_argv(argv)
            finally:
                sys.stdout.flush()  # here, since Python's own at the end would print a traceback
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left goes nowhere
            sys.exit(1)


def columns(head: Sequence[str], rows: Sequence[Sequence[str]], paint: dict[int, Paint] | None = None) -> list[str]:
    """Return aligned lines; a column's paint is given each of its cells below the head."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    return [_line(head, widths, {}), *(_line(row, widths, paint or {}) for row in rows)]


def _line(cells: Sequence[str], widths: Sequence[int], paint: dict[int, Paint]) -> str:
    last = len(cells) - 1
    padded = (cell if index == last else cell.ljust(widths[index]) for index, cell in enumerate(cells))
    return "  ".join(paint.get(index, str)(cell) for index, cell in enumerate(padded)).rstrip()


def database_fault(error: Exception, aliases: Iterable[str]) -> CommandError:
    """Say why the database cannot be used: migrations that it lacks, a mistake of exit code 2, or its own words."""
    for alias in aliases:
        with suppress(DatabaseError, InterfaceError):
            if lack := migrations_fault(alias):
                return CommandError(lack, returncode=2)
    return CommandError(f"the database cannot be used: {error}".splitlines()[0])


class Progress:
    """One line on a terminal that each next one replaces; in a pipe or a file, nothing, or with ``is_plain`` each."""

    def __init__(self, stream: OutputWrapper, *, is_plain: bool = False) -> None:
        self._stream = stream
        self._is_terminal = stream.isatty()
        self._is_plain = is_plain

    def show(self, line: str) -> None:
        """Show how far it has come; the empty text takes the line away."""
        if self._is_terminal:
            self._stream.write(f"\r\x1b[K{line}", str, "")
            self._stream.flush()
        elif self._is_plain and line:
            self._stream.write(line, str)


def take_usual(parser: CommandParser, actions: Iterable[CommandParser]) -> None:
    """Let the actions of a command take behind their names what Django takes before them."""
    for action in actions:
        action.add_argument(
            "-v", "--verbosity", type=int, choices=(0, 1, 2, 3), default=SUPPRESS, help="how much is said (default: 1)"
        )
        action.add_argument(
            "--settings", default=SUPPRESS, help="dotted path of the settings (default: DJANGO_SETTINGS_MODULE)"
        )
        action.add_argument(
            "--pythonpath", default=SUPPRESS, help="folder to look for Python modules in as well (default: none)"
        )
        for option, said in (
            ("--traceback", "show where an error was raised"),
            ("--no-color", "print without colours"),
            ("--force-color", "print colours into pipes as well"),
        ):
            action.add_argument(option, action="store_true", default=SUPPRESS, help=said)
    for each in (parser, *actions):  # Django takes it of commands that it makes checks for; to these it means nothing
        each.add_argument("--skip-checks", action="store_true", default=SUPPRESS, help=SUPPRESS)


def level_of(verbosity: int, settings: OrbitSettings) -> str:
    """Return the level of the log: errors for ``-v 0``, LOG_LEVEL for 1, everything for 2 and 3."""
    return {0: "ERROR", 1: settings.log_level}.get(verbosity, "DEBUG")


@contextmanager
def showing_log(verbosity: int) -> Iterator[None]:
    """Show on stderr, meanwhile, what is logged of trouble, or with ``-v 2`` all, unless LOGGING has its say."""
    ours = logging.getLogger("orbit_django")
    level, handlers = ours.level, ours.handlers[:]
    set_up_logging({0: "ERROR", 1: "WARNING"}.get(verbosity, "DEBUG"))
    try:
        yield
    finally:
        ours.setLevel(level)
        ours.handlers[:] = handlers


def set_up_logging(level: str) -> None:
    """Show the worker's records on stderr, unless the project's LOGGING says what becomes of them."""
    ours = logging.getLogger("orbit_django")
    if ours.level == logging.NOTSET:
        ours.setLevel(level)
    if not ours.hasHandlers():
        handler = LineHandler(sys.stderr)
        handler.setFormatter(ExtrasFormatter())
        ours.addHandler(handler)

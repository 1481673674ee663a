"""Every command says in one sentence what it does, and of each option what it means and what holds without it."""

import argparse
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest
from django.core.management import load_command_class
from django.core.management.base import BaseCommand

from orbit_django.management import commands

NAMES = sorted(path.stem for path in Path(commands.__path__[0]).glob("orbit_*.py"))
OF_DJANGO = {"help", "version", "verbosity", "settings", "pythonpath", "traceback", "no_color", "force_color"}
LEVELS = ("-v", "verbosity")


def parser_of(name: str) -> argparse.ArgumentParser:
    return load_command_class("orbit_django", name).create_parser("manage.py", name)


def options(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """Yield what may be given to a command and to each of its actions, but for what Django gives to every command."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                yield from options(inner)
        elif action.dest not in OF_DJANGO and action.help != argparse.SUPPRESS:
            yield action


@pytest.mark.parametrize("name", NAMES)
def test_a_command_says_in_one_sentence_what_it_does(name: str) -> None:
    told = str(load_command_class("orbit_django", name).help)
    assert told.count(".") == 1
    assert told.endswith(".")
    assert told[0].isupper()
    assert len(told) < 120


@pytest.mark.parametrize("name", NAMES)
def test_every_option_is_explained_and_says_what_holds_without_it(name: str) -> None:
    for action in options(parser_of(name)):
        assert action.help, action.dest
        takes_value = action.nargs != 0 and bool(action.option_strings)
        assert not takes_value or "(default: " in action.help, f"{action.dest}: {action.help}"


@pytest.mark.parametrize("name", NAMES)
def test_numbers_of_time_and_size_name_their_unit(name: str) -> None:
    for action in options(parser_of(name)):
        unit = {"SECONDS": "second", "BYTES": "bytes"}.get(str(action.metavar))
        assert unit is None or unit in str(action.help) or "time" in str(action.help), action.dest


@pytest.mark.parametrize("name", NAMES)
def test_what_django_gives_to_every_command_is_taken_before_and_behind_an_action(name: str) -> None:
    parser = parser_of(name)
    given = {
        action.dest: [action.option_strings[-1], *([] if action.nargs == 0 else ["1"])]
        for action in BaseCommand().create_parser("manage.py", name)._actions
        if action.dest not in ("help", "version")
    }
    actions = [each for each in parser._actions if isinstance(each, argparse._SubParsersAction)]
    lines = [[inner, *(["1"] if inner == "settle" else [])] for each in actions for inner in each.choices]
    assert {"settings", "skip_checks", "traceback"} < set(given)
    for line, option in product(lines, given.values()):
        found, rest = parser.parse_known_args([*option, *line]), parser.parse_known_args([*line, *option])
        assert (found, found[1]) == (rest, []), (line, option)


@pytest.mark.parametrize("name", NAMES)
def test_the_help_can_be_printed(name: str) -> None:
    assert "usage:" in parser_of(name).format_help()

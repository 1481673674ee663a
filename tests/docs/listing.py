"""The parts of the reference that are written from the code: options of commands, columns of tables.

`python -m tests.docs` writes them into the pages, between two comments; a test fails where a page says something else.
"""

import argparse
import re
from collections.abc import Iterator

from django.core.management import load_command_class
from django.db import models

from orbit_django.models import Effect, IdempotencyRecord, OutboxMessage, WorkflowStart
from tests.docs.pages import ROOT, text_of
from tests.management.test_help import NAMES, OF_DJANGO, parser_of

COMMANDS, MODELS = "docs/reference/commands.md", "docs/reference/models.md"
TABLES: tuple[type[models.Model], ...] = (IdempotencyRecord, OutboxMessage, Effect, WorkflowStart)
WRITTEN = re.compile(r"(<!-- written from the code -->\n).*(<!-- end -->)", re.DOTALL)


def listings() -> dict[str, str]:
    """Return the written part of each page that has one."""
    commands = "\n\n".join("\n".join(_command(name)) for name in NAMES)
    return {COMMANDS: commands, MODELS: "\n\n".join("\n".join(_table(model)) for model in TABLES)}


def with_listing(page: str, listing: str) -> str:
    """Return the text of a page with this listing."""
    text, count = WRITTEN.subn(lambda match: f"{match[1]}\n{listing}\n\n{match[2]}", text_of(page))
    assert count == 1, f"{page}: the comments around the listing are missing"
    return text


def write() -> None:
    """Write every listing into its page."""
    for page, listing in listings().items():
        (ROOT / page).write_text(with_listing(page, listing), encoding="utf-8")


def actions(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """Return the actions of a command, each with its parser."""
    return {
        name: inner
        for action in parser._actions
        if isinstance(action, argparse._SubParsersAction)
        for name, inner in action.choices.items()
    }


def _command(name: str) -> Iterator[str]:
    parser = parser_of(name)
    yield f"### `{name}`"
    yield ""
    yield plain(str(load_command_class("orbit_django", name).help))
    if inner := actions(parser):
        for action, its in inner.items():
            yield from ["", f"`{name} {action}`", "", *_options(its)]
    else:
        yield from ["", *_options(parser)]


def _options(parser: argparse.ArgumentParser) -> Iterator[str]:
    rows = [action for action in parser._actions if action.dest not in OF_DJANGO and action.help != argparse.SUPPRESS]
    if not rows:
        yield "No options but those of every command."
        return
    yield "| option | meaning |"
    yield "|---|---|"
    for action in rows:
        said = str(action.help).replace("%(default)s", str(action.default))
        yield f"| {', '.join(f'`{each}`' for each in _spelt(action))} | {plain(said)} |"


def _spelt(action: argparse.Action) -> Iterator[str]:
    value = str(action.metavar or action.dest.upper())
    if action.nargs in ("*", "+"):
        value += "…"
    if not action.option_strings:
        yield value
    for option in action.option_strings:
        yield option if action.nargs == 0 else f"{option} {value}"


def _table(model: type[models.Model]) -> Iterator[str]:
    yield f"## {model.__name__}"
    yield ""
    yield str(model.__doc__).partition(";")[0].rstrip(".") + "."
    yield from ["", "| column | type | meaning |", "|---|---|---|"]
    for field in model._meta.concrete_fields:
        yield f"| `{field.name}` | {_type(field)} | {plain(str(field.help_text) or 'The row.')} |"


def _type(field: models.Field) -> str:
    kind = field.get_internal_type().removesuffix("Field")
    if field.choices:
        return f"{kind}: " + ", ".join(f"`{value}`" for value, _ in field.choices)
    if isinstance(field, models.ForeignKey):
        return f"{kind} to `{field.related_model.__name__}`"
    return f"{kind} or null" if field.null else kind


def plain(text: str) -> str:
    """Return a text in which nothing means anything to a reader of Markdown."""
    return re.sub(r"([\\<>*|])", r"\\\1", text)

"""Handlers to begin with: Python text with a dataclass for each input and output, and what is left to be written.

The text is a whole ``tasks_orbit.py``. A field whose name Python would not take makes its class a ``TypedDict``.
"""

from __future__ import annotations

import builtins
import keyword
import re
import unicodedata
from collections.abc import Iterable

from orbit_django.contracts import FLOAT, INT, LIST, STRING, TaskContract
from orbit_django.contracts.declarations import Shape

HINTS = {STRING: "str", INT: "int", FLOAT: "float", LIST: "list"}
IMPORTED = {"dataclass", "TypedDict", "Any", "TaskContext", "TaskError", "task", "input", "ctx"}


def stubs(contracts: Iterable[TaskContract]) -> str:
    """Return a module with a handler for each contract; it fails every run until somebody has written it."""
    taken = set(IMPORTED) | set(dir(builtins)) | set(keyword.kwlist)
    blocks = [block for contract in contracts for block in _handler(contract, taken)]
    body = "\n\n".join(blocks)
    head = ("from dataclasses import dataclass\n" if "@dataclass\n" in body else "") + _from_typing(body)
    own = "from orbit_django import TaskContext, TaskError, task\n"
    return "\n".join(part for part in (head, own, f"\n{body}") if part)


def _from_typing(body: str) -> str:
    names = [name for name, sign in (("Any", ": Any\n"), ("TypedDict", " = TypedDict(\n")) if sign in body]
    return f"from typing import {', '.join(names)}\n" if names else ""


def _handler(contract: TaskContract, taken: set[str]) -> Iterable[str]:
    name = _free(_word(contract.name.rpartition(".")[2]), _word(contract.name), taken, contract.version)
    kind = "".join(part[:1].upper() + part[1:] for part in name.split("_")) or "Task"
    given, result = "dict", "dict"
    if contract.input:
        given = _free(f"{kind}Input", f"{kind}Input", taken)
        yield _type(given, contract.input)
    if contract.output:
        result = _free(f"{kind}Output", f"{kind}Output", taken)
        yield _type(result, contract.output)
    said, version = _literal(contract.name), _literal(contract.version)
    yield (
        f"@task({said}, version={version})\n"
        f"def {name}(input: {given}, ctx: TaskContext) -> {result}:\n"
        f'    raise TaskError("NOT_WRITTEN", "nobody has written this handler yet", retryable=False)\n'
    )


def _type(name: str, shape: Shape) -> str:
    fields = {field: HINTS.get(kind, "Any") for field, kind in shape.items()}
    if any(keyword.iskeyword(field) or field.startswith("__") for field in fields):
        members = "".join(f"        {_literal(field)}: {hint},\n" for field, hint in fields.items())
        return f'{name} = TypedDict(\n    "{name}",\n    {{\n{members}    }},\n)\n'
    return f"@dataclass\nclass {name}:\n" + "".join(f"    {field}: {hint}\n" for field, hint in fields.items())


def _word(text: str) -> str:
    """Return a text as a Python name of plain letters: words in small letters, with `_` between them."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    plain = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", plain)
    word = re.sub(r"[\W_]+", "_", plain).strip("_").lower()
    return f"task_{word}".rstrip("_") if not word or word[0].isdigit() else word


def _free(short: str, long: str, taken: set[str], version: str = "") -> str:
    """Return the shortest of some names that nothing else has, and take it."""
    longest = f"{long}_v{_word('x' + version)[1:]}" if version else long
    choices = (short, long, longest, *(f"{longest}_{number}" for number in range(2, 10_000)))
    name = next(choice for choice in choices if choice not in taken)
    taken.add(name)
    return name


def _literal(text: str) -> str:
    """Return a text as Python writes it, in double quotes where that is all the same."""
    shown = repr(text)
    return f'"{shown[1:-1]}"' if shown[0] == "'" and '"' not in text else shown

"""Turn the text of an `.orbit` file into tokens that know where they stand.

Comments (`#` or `//` to the end of the line) and white space are left out. This module knows no grammar.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from orbit_django.exceptions import ContractSyntaxError

_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000}
_HINTS = {
    "?": ": every field is required",
    "|": ": a field has one type",
    "<": ": a type has no parameters, and lists have no type",
    "=": ": a name and its value are parted by a colon",
}
_TOKEN = re.compile(
    r"""
    (?P<blank>\s+|(?:\#|//)[^\n]*)
  | (?P<string>"(?:[^"\\\n]|\\.)*")
  | (?P<duration>\d+(?:ms|s|m|h)\b)
  | (?P<number>-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?\b)
  | (?P<name>[A-Za-z_]\w*)
  | (?P<mark>[{}\[\]:,.])
    """,
    re.VERBOSE | re.ASCII,
)


@dataclass(frozen=True, slots=True)
class Position:
    """A place in a file; line and column count from 1."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"

    def error(self, text: str) -> ContractSyntaxError:
        """Return the error that says what is wrong here."""
        return ContractSyntaxError(self.file, self.line, self.column, text)


NOWHERE = Position("<python>", 0, 0)  # of declarations that stand in no file


@dataclass(frozen=True, slots=True)
class Token:
    """One word, value or mark. ``kind`` is string, duration, number, name, mark or end."""

    kind: str
    text: str  # as written
    value: Any  # a string's text, a duration's milliseconds, a number
    at: Position

    def __str__(self) -> str:
        return "the end of the file" if self.kind == "end" else f"`{self.text}`"


def tokenize(text: str, file: str) -> Iterator[Token]:
    """Yield the tokens of ``text``, the last one of kind ``end``; raise ContractSyntaxError for anything unknown."""
    line, line_start, index = 1, 0, 0
    while index < len(text):
        at = Position(file, line, index - line_start + 1)
        match = _TOKEN.match(text, index)
        if match is None:
            raise at.error(_complaint(text, index))
        kind, word = str(match.lastgroup), match.group()
        if kind != "blank":
            yield Token(kind, word, _value(kind, word, at), at)
        if newlines := word.count("\n"):
            line, line_start = line + newlines, index + word.rindex("\n") + 1
        index = match.end()
    yield Token("end", "", None, Position(file, line, index - line_start + 1))


def _complaint(text: str, index: int) -> str:
    if text[index] == '"':
        return "this string is not closed on its line"
    if text[index] == "'":
        return "texts are written in double quotes"
    if found := re.compile(r"\d\w*", re.ASCII).match(text, index):
        return f"`{found[0]}` is neither a number nor a duration, whose units are {', '.join(_UNITS_MS)}"
    return f"{text[index]!r} means nothing here{_HINTS.get(text[index], '')}"


def _value(kind: str, word: str, at: Position) -> Any:
    if kind == "duration":
        digits = word.rstrip("hms")
        return int(digits) * _UNITS_MS[word[len(digits) :]]
    if kind in {"string", "number"}:
        try:
            return json.loads(word)
        except ValueError:
            raise at.error(f"{word} is not a {kind} that JSON allows") from None
    return word

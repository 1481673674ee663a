"""A cursor over tokens with the few moves that the grammar is made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from orbit_django.contracts.lexer import Position, Token, tokenize
from orbit_django.exceptions import ContractSyntaxError

_REQUIRED: Any = object()


class Clauses:
    """The clauses found in a block, by keyword."""

    def __init__(self, owner: str) -> None:
        self.owner = owner
        self.found: dict[str, Any] = {}

    def require(self, keyword: str, at: Position) -> None:
        """Raise ContractSyntaxError at ``at`` when the clause is missing."""
        if keyword not in self.found:
            raise at.error(f"{self.owner} has no `{keyword}`")

    def get(self, keyword: str, default: Any = _REQUIRED) -> Any:
        """Return what the clause says, or the default."""
        return self.found[keyword] if default is _REQUIRED else self.found.get(keyword, default)


class Reader:
    """Looks at one token at a time."""

    def __init__(self, text: str, file: str) -> None:
        self._tokens = tokenize(text, file)
        self.token = next(self._tokens)
        self._line = 1  # where the token before it ended
        self.last_name = self.token

    def next(self) -> Token:
        """Return the current token and move to the one after it."""
        token = self.token
        self._line = token.at.line
        if token.kind != "end":
            self.token = next(self._tokens)
        return token

    def take(self, mark: str) -> bool:
        """Move on when the current token is the mark, and say whether it was."""
        return self._take("mark", mark)

    def take_word(self, word: str) -> bool:
        """Move on when the current token is the word, and say whether it was."""
        return self._take("name", word)

    def _take(self, kind: str, text: str) -> bool:
        is_it = (self.token.kind, self.token.text) == (kind, text)
        if is_it:
            self.next()
        return is_it

    def expect(self, kind: str, wanted: str) -> Token:
        """Return the current token, which must be of the kind, and move on."""
        if self.token.kind != kind:
            raise self.unexpected(wanted)
        return self.next()

    def expect_mark(self, mark: str) -> None:
        """Move over the mark, or raise."""
        if not self.take(mark):
            raise self.unexpected(f"`{mark}`")

    def unexpected(self, wanted: str) -> ContractSyntaxError:
        """Return the error that names what was expected and what stands here."""
        return self.token.at.error(f"expected {wanted}, found {self.token}")

    def fields(self, value: Callable[[str], Any]) -> dict[str, Any]:
        """Read ``{ name: value, … }``; ``value`` reads what stands after each colon."""
        self.expect_mark("{")
        found: dict[str, Any] = {}
        while not self.take("}"):
            if found and not self.take(",") and self.token.at.line == self._line:
                raise self.unexpected("`,`, `}` or a new line")
            name = self.last_name = self.expect("name", "a field's name")
            if name.text in found:
                raise name.at.error(f"`{name.text}` is given twice")
            self.expect_mark(":")
            found[name.text] = value(name.text)
        return found

    def block(self, known: Mapping[str, Callable[[Reader], Any]], owner: str, *, repeated: str = "") -> Clauses:
        """Read ``{ keyword … keyword … }``; each keyword's reader reads what follows it."""
        self.expect_mark("{")
        clauses = Clauses(owner)
        while not self.take("}"):
            keyword = self.token
            if keyword.kind != "name" or keyword.text not in known:
                raise keyword.at.error(f"{owner}: expected {', '.join(known)} or `}}`, found {keyword}")
            if keyword.text in clauses.found and keyword.text != repeated:
                raise keyword.at.error(f"{owner} has two `{keyword.text}`")
            self.next()
            clauses.found[keyword.text] = known[keyword.text](self)
        return clauses

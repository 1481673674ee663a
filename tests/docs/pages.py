"""The pages of the documentation, and the blocks of code on them."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs"
PAGES = sorted(page.relative_to(ROOT).as_posix() for page in FOLDER.rglob("*.md"))
ALL = ["README.md", "CONTRIBUTING.md", *PAGES]
FENCE = re.compile(r"^(?P<indent> *)```(?P<language>\S*)\n(?P<text>.*?)^(?P=indent)```$", re.MULTILINE | re.DOTALL)
MARK = re.compile(r"^ *<!-- (.*?) -->$", re.MULTILINE)
FILE = re.compile(r"`(/?[\w./-]+\.(?:py|orbit|ini|toml|service|timer))`")


@dataclass(frozen=True)
class Block:
    """One block of code, or with the language "mark" a comment that stands alone."""

    page: str
    line: int
    language: str
    text: str
    mark: str = ""  # the comment above the block
    file: str = ""  # the last file that is named in the paragraph before

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def way(self) -> tuple[str, str]:
        """The comment as a word and what follows the colon."""
        name, _, rest = self.mark.partition(": ")
        return name, rest


def text_of(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def blocks(page: str) -> Iterator[Block]:
    """Yield the blocks of a page, and the comments that stand for themselves, in their order."""
    text, before = text_of(page), 0
    for match in FENCE.finditer(text):
        between = text[before : match.start()]
        *alone, above = [*MARK.findall(between), ""]
        if alone and between.rstrip().endswith("-->"):
            above = alone.pop()
        for mark in alone:
            yield Block(page, text.count("\n", 0, match.start()) + 1, "mark", "", mark)
        named = FILE.findall(between)
        inner = re.sub(rf"^{match['indent']}", "", match["text"], flags=re.MULTILINE)
        line = text.count("\n", 0, match.start()) + 1
        yield Block(page, line, match["language"], inner, above, named[-1] if named else "")
        before = match.end()
    for mark in MARK.findall(text[before:]):
        yield Block(page, text.count("\n") + 1, "mark", "", mark)


def every_block(*languages: str) -> list[Block]:
    """Return the blocks of all pages that are in these languages."""
    return [block for page in ALL for block in blocks(page) if block.language in languages]

"""What commands show: columns under their headings, and how far a long work has come."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from django.core.management.base import OutputWrapper

Paint = Callable[[str], str]


def columns(head: Sequence[str], rows: Sequence[Sequence[str]], paint: dict[int, Paint] | None = None) -> list[str]:
    """Return aligned lines; a column's paint is given each of its cells below the head."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    return [_line(head, widths, {}), *(_line(row, widths, paint or {}) for row in rows)]


def _line(cells: Sequence[str], widths: Sequence[int], paint: dict[int, Paint]) -> str:
    last = len(cells) - 1
    padded = (cell if index == last else cell.ljust(widths[index]) for index, cell in enumerate(cells))
    return "  ".join(paint.get(index, str)(cell) for index, cell in enumerate(padded)).rstrip()


class Progress:
    """One line on a terminal that each next one replaces; in a pipe or a file, nothing."""

    def __init__(self, stream: OutputWrapper) -> None:
        self._stream = stream
        self._is_shown = stream.isatty()

    def show(self, line: str) -> None:
        """Show how far it has come; the empty text takes the line away."""
        if self._is_shown:
            self._stream.write(f"\r\x1b[K{line}", str, "")
            self._stream.flush()

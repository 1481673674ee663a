"""What the demo shows: a progress bar on a terminal, plain lines anywhere else, and aligned tables."""

import sys
import time
from collections.abc import Iterable

WIDTH = 40
Row = tuple[str, object]


class Progress:
    """How far the orders have come."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._is_terminal = sys.stdout.isatty()
        self._began_at = time.monotonic()
        self._shown = -1

    def show(self, done: int, kills: int) -> None:
        """Draw the bar again; without a terminal, print a line for each further tenth."""
        tenth = done * 10 // self._total
        if self._is_terminal:
            bar = "#" * (done * WIDTH // self._total)
            print(f"\r  [{bar:.<{WIDTH}}] {self._text(done, kills)}", end="", flush=True)
        elif tenth > self._shown:
            print(f"  {self._text(done, kills)}", flush=True)
        self._shown = max(self._shown, tenth)

    def end(self) -> None:
        """Leave the bar's line."""
        if self._is_terminal:
            print()

    def _text(self, done: int, kills: int) -> str:
        seconds = time.monotonic() - self._began_at
        return f"{done:>{len(str(self._total))}} of {self._total} steps, worker killed {kills}x, {seconds:.0f} s"


def say(text: str) -> None:
    """Print a line at once."""
    print(text, flush=True)


def table(rows: Iterable[Row]) -> str:
    """Return the rows with their values right-aligned; a row with an empty value is a heading."""
    lines = [(label, f"{value:,}" if isinstance(value, int) else str(value)) for label, value in rows]
    left = max(len(label) for label, _ in lines) + 2
    right = max(len(value) for _, value in lines)
    return "\n".join(f"  {label:<{left}}{value:>{right}}".rstrip() for label, value in lines)

"""Whether a file that a setting names has changed since it was read."""

from __future__ import annotations

from pathlib import Path

Mark = tuple[int, int, int]


def mark_of(path: str | Path) -> Mark | None:
    """Return what changes when the file is written or replaced, None while it is not there.

    The size is part of it: a clock that ticks in milliseconds may not tell a file from its half.
    """
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino, found.st_size

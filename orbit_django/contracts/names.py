"""What to say of a name that nobody declared: the one that was meant, or those there are."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_MOST = 10


def instead(name: str, known: Iterable[str]) -> str:
    """Return the end of a sentence that says that ``name`` is unknown."""
    names = sorted(set(known))
    if not names:
        return "; there is none"
    shown = ", ".join(f"`{known}`" for known in names[:_MOST])
    listed = f"known are {shown}" + (f" and {len(names) - _MOST} more" if len(names) > _MOST else "")
    close = difflib.get_close_matches(name, names, n=1)
    if not close:
        return f"; {listed}"
    return f"; did you mean `{close[0]}`?" + (f" ({listed})" if len(names) > 1 else "")
